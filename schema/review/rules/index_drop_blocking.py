"""An index is dropped while readers wait."""

from collections.abc import Iterator

from schema.pg.catalog.indexes import Index
from schema.review.facts import LockMode
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import removed


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        gone = {each.name: each for each in statement.dropped}
        for index in removed(statement, Index):
            relation = gone.get(index.identity)
            table = None if relation is None or relation.table is None else statement.relations.get(relation.table)
            if table is None or table.name in gone or index.constraint is not None:
                continue
            if any(
                lock.relation.oid == table.oid and lock.mode is LockMode.ACCESS_EXCLUSIVE for lock in statement.locks
            ):
                yield Found(
                    f"dropping {index.identity} locks {table.name} in ACCESS EXCLUSIVE mode", statement, table.name
                )


RULE = Rule(
    "index-drop-blocking",
    "Index dropped without CONCURRENTLY",
    "An index of a table that stays is dropped under ACCESS EXCLUSIVE on the table.",
    "Reads and writes wait, from the moment it queues behind the longest running query until the transaction ends.",
    """\
with op.get_context().autocommit_block():
    op.execute("SET lock_timeout = 0")
    op.drop_index("ix_app_name", "app", postgresql_concurrently=True, if_exists=True)
    op.execute("RESET lock_timeout")""",
    Severity.WARNING,
    _find,
    bad=Example('op.drop_index("ix_app_name", "app")', setup="CREATE INDEX ix_app_name ON app (name)"),
    good=Example(
        """\
with op.get_context().autocommit_block():
    op.drop_index("ix_app_name", "app", postgresql_concurrently=True)""",
        setup="CREATE INDEX ix_app_name ON app (name)",
    ),
)
