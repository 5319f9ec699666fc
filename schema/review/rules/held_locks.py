"""More work is done while a lock that blocks applications is held."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import slow


def _find(context: Context) -> Iterator[Found]:
    told: set[tuple[int, int]] = set()
    for statement in context.trace.statements:
        for lock in statement.held:
            key = (statement.transaction, lock.relation.oid)
            if not lock.mode.dangerous or not lock.relation.is_table or key in told:
                continue
            after = [each for each in context.trace.statements if each.transaction == statement.transaction]
            after = [each for each in after if each.number >= statement.number]
            costly = next((each for each in after if slow(context, each)), None)
            told.add(key)
            more = "another statement runs" if len(after) == 1 else f"{len(after)} more statements run"
            why = f"; statement {costly.number} {slow(context, costly)}" if costly is not None else ""
            yield Found(
                f"{lock.relation.name} stays locked ({lock.mode}) while {more}{why}",
                costly or statement,
                lock.relation.name,
                Severity.WARNING if costly is not None else Severity.NOTE,
            )


RULE = Rule(
    "held-lock",
    "More statements while a lock is held",
    "A statement runs in a transaction that holds SHARE or a stronger lock on a table that existed before.",
    "The outage is as long as the rest of the transaction, and not only as long as the statement that took the lock.",
    """\
# One revision, and so one transaction, for each table; what is slow goes into one that holds no such lock.
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")""",
    Severity.WARNING,
    _find,
    bad=Example("""\
op.execute("ALTER TABLE app ADD COLUMN flag boolean")
op.execute("SELECT count(*) FROM parent")"""),
    good=Example("""\
op.execute("SELECT count(*) FROM parent")
op.execute("ALTER TABLE app ADD COLUMN flag boolean")"""),
)
