"""A statement finds its work done, and locks all the same."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import dangerous


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        locks = dangerous(statement)
        skipped = [text for text in statement.notices if text.endswith("skipping")]
        if locks and skipped and not (statement.changes or statement.rewritten or statement.written):
            yield Found(
                f"it does nothing ({skipped[0]}), but takes {locks[0].mode} on {locks[0].relation.name}",
                statement,
                locks[0].relation.name,
                sized=False,
            )


RULE = Rule(
    "nothing-done",
    "Locks for nothing",
    "A statement with IF EXISTS or IF NOT EXISTS finds nothing to do, and takes a lock that blocks applications.",
    "Readers and writers wait for nothing.",
    "",
    Severity.WARNING,
    _find,
    bad=Example('op.execute("ALTER TABLE app ADD COLUMN IF NOT EXISTS number int")'),
    good=Example('op.execute("ALTER TABLE app ADD COLUMN IF NOT EXISTS flag boolean")'),
)
