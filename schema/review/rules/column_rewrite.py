"""A new column makes the server write the whole table anew."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import new_columns


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for table in statement.rewritten:
            columns = new_columns(statement, table.name) if table.is_table else []
            if columns:
                names = ", ".join(each.name for each in columns)
                yield Found(f"adding {names} rewrites {table.name}", statement, table.name)


RULE = Rule(
    "column-rewrite",
    "New column rewrites the table",
    "A column is added with a volatile default, as serial or identity, stored generated, or of a constrained domain.",
    "Reads and writes wait while table and indexes are written anew, which needs their size again on disk.",
    """\
op.add_column("app", sa.Column("token", sa.Uuid, nullable=True))
# New rows have it from here on; fill the others in batches.
op.alter_column("app", "token", server_default=sa.text("gen_random_uuid()"))""",
    Severity.ERROR,
    _find,
    bad=Example('op.add_column("app", sa.Column("token", sa.Uuid, server_default=sa.text("gen_random_uuid()")))'),
    good=Example('op.add_column("app", sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now()))'),
)
