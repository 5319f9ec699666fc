"""A change of type re-checks or re-indexes the rows, though it does not rewrite them."""

from collections.abc import Iterator

from schema.pg.catalog.columns import Column
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import bare, changed, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        written = {each.name for each in statement.rewritten}
        for old, new in changed(statement, Column):
            table = existing(context, new.table, statement)
            if table is None or old.type == new.type or table.name in written:
                continue
            if statement.noted("verifying table ", table):
                yield Found(f"{new.name} to {new.type} checks every row of {table.name}", statement, table.name)
            built = [text for text in statement.notes("building index ") if f'on table "{bare(table.name)}"' in text]
            for text in built:
                index = text.split('"')[1]
                yield Found(f"{new.name} to {new.type} rebuilds index {index}", statement, table.name)


RULE = Rule(
    "type-change-check",
    "Change of type checks rows or rebuilds an index",
    "The type of a column changes without a rewrite, but a CHECK or a domain is checked anew or an index rebuilt.",
    "Reads and writes wait until every row has been read: the lock is ACCESS EXCLUSIVE.",
    """\
# Drop the CHECK, change the type, add the CHECK again NOT VALID, and validate it in a transaction of its own.
op.drop_constraint("name_short", "app")
op.alter_column("app", "name", type_=sa.Text)
op.execute("ALTER TABLE app ADD CONSTRAINT name_short CHECK (length(name) < 40) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT name_short")""",
    Severity.ERROR,
    _find,
    bad=Example(
        'op.alter_column("app", "name", type_=sa.Text)',
        setup="ALTER TABLE app ADD CONSTRAINT name_short CHECK (length(name) < 40)",
    ),
    good=Example(
        'op.alter_column("app", "name", type_=sa.String(500))', setup="CREATE INDEX ix_app_name ON app (name)"
    ),
)
