"""An index on a partitioned table builds one on every partition."""

from collections.abc import Iterator

from schema.pg.catalog.indexes import Index
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, existing

_SETUP = """CREATE TABLE parted (id int, n int) PARTITION BY RANGE (id);
CREATE TABLE part_one PARTITION OF parted FOR VALUES FROM (0) TO (1000);"""


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for index in added(statement, Index):
            table = existing(context, index.table, statement)
            if table is None or table.kind != "p" or not statement.notes("building index "):
                continue
            leaves = [
                lock.relation.name for lock in statement.locks if lock.relation.kind == "r" and lock.mode.dangerous
            ]
            yield Found(
                f"{index.identity} is built on {', '.join(dict.fromkeys(leaves))} while writes wait",
                statement,
                table.name,
            )


RULE = Rule(
    "partitioned-index",
    "Index on a partitioned table",
    "An index is made on a partitioned table, which builds it on every partition. CONCURRENTLY is not possible there.",
    "Writes to all partitions wait until the last index is built.",
    """\
op.execute("CREATE INDEX ix_parted_n ON ONLY parted (n)")
with op.get_context().autocommit_block():
    op.execute("CREATE INDEX CONCURRENTLY ix_part_one_n ON part_one (n)")
op.execute("ALTER INDEX ix_parted_n ATTACH PARTITION ix_part_one_n")""",
    Severity.ERROR,
    _find,
    bad=Example('op.create_index("ix_parted_n", "parted", ["n"])', setup=_SETUP),
    good=Example(
        """\
op.execute("CREATE INDEX ix_parted_n ON ONLY parted (n)")
with op.get_context().autocommit_block():
    op.execute("CREATE INDEX CONCURRENTLY ix_part_one_n ON part_one (n)")
op.execute("ALTER INDEX ix_parted_n ATTACH PARTITION ix_part_one_n")""",
        setup=_SETUP,
    ),
)
