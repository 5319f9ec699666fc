"""Partitions are attached, detached or made under locks."""

from collections.abc import Iterator

from schema.pg.catalog.tables import Table
from schema.review.facts import LockMode
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, changed, dangerous, existing

_SETUP = """CREATE TABLE parted (id int, n int) PARTITION BY RANGE (id);
CREATE TABLE part_one PARTITION OF parted FOR VALUES FROM (0) TO (1000);
CREATE TABLE part_two (id int NOT NULL, n int, CHECK (id >= 1000 AND id < 2000));
CREATE TABLE part_three (id int, n int, CHECK (id > 2000 AND id < 3000));"""


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        locked = {lock.relation.name: lock.mode for lock in dangerous(statement)}
        for old, new in changed(statement, Table):
            table = existing(context, new.identity, statement)
            if table is None or old.partition_bound == new.partition_bound:
                continue
            if old.partition_bound is None and statement.noted("verifying table ", table):
                yield Found(f"{new.identity} is read whole to attach it", statement, new.identity)
            for parent in old.inherits if new.partition_bound is None else ():
                name = next((each for each in locked if each in {parent, f"public.{parent}"}), None)
                if name is not None and locked[name] is LockMode.ACCESS_EXCLUSIVE:
                    yield Found(
                        f"{new.identity} is detached under {locked[name]} on {name}", statement, name, sized=False
                    )
        for made in added(statement, Table):
            for name, mode in locked.items() if made.partition_bound is not None else ():
                if mode is LockMode.ACCESS_EXCLUSIVE:
                    yield Found(
                        f"{made.identity} is made as a partition under {mode} on {name}", statement, name, sized=False
                    )


RULE = Rule(
    "partition-locked",
    "Partition attached with a scan, detached or made under a lock",
    "ATTACH PARTITION reads the table, DETACH runs without CONCURRENTLY, or CREATE … PARTITION OF locks the parent.",
    "Everything on the partitioned table waits, on all of its partitions.",
    """\
op.execute("CREATE TABLE part_four (LIKE parted INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
op.execute("ALTER TABLE part_four ADD CHECK (id IS NOT NULL AND id >= 3000 AND id < 4000)")
# No scan: the CHECK proves it.
op.execute("ALTER TABLE parted ATTACH PARTITION part_four FOR VALUES FROM (3000) TO (4000)")""",
    Severity.WARNING,
    _find,
    bad=Example('op.execute("ALTER TABLE parted DETACH PARTITION part_one")', setup=_SETUP),
    good=Example(
        'op.execute("ALTER TABLE parted ATTACH PARTITION part_two FOR VALUES FROM (1000) TO (2000)")', setup=_SETUP
    ),
)
