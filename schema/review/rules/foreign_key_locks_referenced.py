"""A foreign key of a new table or column locks the table that it refers to."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.review.facts import LockMode
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, dangerous, existing, new_columns


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for key in added(statement, Constraint):
            new = existing(context, key.table, statement) is None or bool(new_columns(statement, key.table))
            if key.sort != "FOREIGN KEY" or not new:
                continue
            for lock in dangerous(statement):
                if lock.mode is LockMode.SHARE_ROW_EXCLUSIVE and f"{lock.relation.name}(" in key.definition:
                    yield Found(
                        f"foreign key {key.name} locks {lock.relation.name}, which it refers to",
                        statement,
                        lock.relation.name,
                    )


RULE = Rule(
    "foreign-key-locks-referenced",
    "Foreign key locks the referenced table",
    "CREATE TABLE or ADD COLUMN with a foreign key takes SHARE ROW EXCLUSIVE on a table that existed before.",
    "Writes to the referenced table wait until the transaction ends. There is no scan: it is an instant, if the lock is had.",
    """\
op.execute("SET LOCAL lock_timeout = '2s'")
op.create_table("fresh", sa.Column("id", sa.BigInteger, primary_key=True), sa.Column("parent_id", sa.BigInteger))
op.create_foreign_key("fresh_parent", "fresh", "parent", ["parent_id"], ["id"])  # last in its transaction""",
    Severity.NOTE,
    _find,
    bad=Example('op.execute("CREATE TABLE fresh (id int, parent_id bigint REFERENCES parent)")'),
    good=Example('op.execute("CREATE TABLE fresh (id int, parent_id bigint)")'),
)
