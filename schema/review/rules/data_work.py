"""A revision writes rows of a table that existed before."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import dangerous

MANY = 1000
"""Rows that one statement may insert."""


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for oid, counts in statement.written.items():
            table = context.trace.relations[oid]
            if table.kind == "m":
                # REFRESH, which is another rule's.
                continue
            touched = counts.updated + counts.deleted
            rows = context.trace.rows.get(oid, 0)
            if (rows and touched * 2 >= rows) or touched > MANY or counts.inserted > MANY:
                yield Found(
                    f"{counts.total} of {rows} rows of {table.name} are written by one statement", statement, table.name
                )
            mixed = [
                lock.relation.name
                for each in context.trace.statements
                if each.transaction == statement.transaction
                for lock in dangerous(each)
            ]
            if mixed and counts.total:
                yield Found(
                    f"rows of {table.name} are written in the transaction that locks {mixed[0]}", statement, table.name
                )


RULE = Rule(
    "data-work",
    "Rows are written in a revision",
    "A statement updates or deletes half of a table or more, inserts many rows, or writes in a transaction that locks a table.",
    "The rows stay locked until the whole transaction ends, a failure begins from nothing, and replicas fall behind.",
    """\
# Outside of the revision, in batches that each commit:
#   UPDATE app SET number = 0 WHERE id IN (SELECT id FROM app WHERE number IS NULL ORDER BY id LIMIT 1000)
# The revision only makes sure that nothing is left.""",
    Severity.ERROR,
    _find,
    bad=Example('op.execute("UPDATE app SET number = 0")'),
    good=Example('op.execute("UPDATE app SET number = 0 WHERE id = 1")'),
)
