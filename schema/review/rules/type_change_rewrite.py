"""A change of type makes the server write the whole table anew."""

from collections.abc import Iterator

from schema.pg.catalog.columns import Column
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import changed


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for table in statement.rewritten:
            for old, new in changed(statement, Column):
                if new.table == table.name and old.type != new.type:
                    yield Found(
                        f"{new.name} from {old.type} to {new.type} rewrites {table.name}", statement, table.name
                    )


RULE = Rule(
    "type-change-rewrite",
    "Change of type rewrites the table",
    "The type of a column is changed to one that is stored differently.",
    "Reads and writes wait while the table and all its indexes are written anew, which needs their size again on disk.",
    """\
op.add_column("app", sa.Column("number_new", sa.BigInteger))
# then: a trigger that keeps both in step, a backfill in batches, and a later revision that swaps the names""",
    Severity.ERROR,
    _find,
    bad=Example('op.alter_column("app", "number", type_=sa.BigInteger)'),
    good=Example('op.alter_column("app", "name", type_=sa.Text)'),
)
