"""An index is built while writers wait."""

from collections.abc import Iterator

from schema.pg.catalog.indexes import Index
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, index_built


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for index in added(statement, Index):
            table = index_built(context, statement, index.identity)
            if table is not None and table.kind != "p" and index.constraint is None:
                yield Found(f"{index.identity} is built while {table.name} is locked", statement, table.name)


RULE = Rule(
    "index-blocking",
    "Index built without CONCURRENTLY",
    "An index is built on a table that existed before, under SHARE or stronger.",
    "Every INSERT, UPDATE and DELETE on the table waits until the index is built.",
    """\
with op.get_context().autocommit_block():
    op.execute("SET lock_timeout = 0")
    op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_app_number")
    op.create_index("ix_app_number", "app", ["number"], postgresql_concurrently=True)
    op.execute("RESET lock_timeout")""",
    Severity.ERROR,
    _find,
    bad=Example('op.create_index("ix_app_number", "app", ["number"])'),
    good=Example("""\
with op.get_context().autocommit_block():
    op.create_index("ix_app_number", "app", ["number"], postgresql_concurrently=True)"""),
)
