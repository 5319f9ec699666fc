"""A UNIQUE or PRIMARY KEY constraint builds its index under a lock."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.pg.catalog.indexes import Index
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, index_built


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        constraints = {each.identity: each for each in added(statement, Constraint)}
        for index in added(statement, Index):
            constraint = constraints.get(f"{index.table}.{index.constraint}")
            table = index_built(context, statement, index.identity)
            if constraint is not None and table is not None and constraint.sort in {"UNIQUE", "PRIMARY KEY"}:
                yield Found(
                    f"the index of {constraint.sort} {constraint.name} is built while {table.name} is locked",
                    statement,
                    table.name,
                )


RULE = Rule(
    "constraint-index-blocking",
    "UNIQUE or PRIMARY KEY builds its index under a lock",
    "A UNIQUE or PRIMARY KEY constraint is added to a table that existed before, and its index is built with it.",
    "Reads and writes wait until the index is built: the lock is ACCESS EXCLUSIVE.",
    """\
with op.get_context().autocommit_block():
    op.execute("DROP INDEX CONCURRENTLY IF EXISTS uq_app_number")
    op.create_index("uq_app_number", "app", ["number"], unique=True, postgresql_concurrently=True)
op.execute("ALTER TABLE app ADD CONSTRAINT uq_app_number UNIQUE USING INDEX uq_app_number")""",
    Severity.ERROR,
    _find,
    bad=Example('op.create_unique_constraint("uq_app_number", "app", ["number"])'),
    good=Example("""\
with op.get_context().autocommit_block():
    op.create_index("uq_app_number", "app", ["number"], unique=True, postgresql_concurrently=True)
op.execute("ALTER TABLE app ADD CONSTRAINT uq_app_number UNIQUE USING INDEX uq_app_number")"""),
)
