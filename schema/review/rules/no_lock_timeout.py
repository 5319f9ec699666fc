"""A lock that blocks applications is asked for without an end."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import dangerous


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for lock in dangerous(statement):
            if statement.lock_timeout_ms == 0:
                yield Found(
                    f"{lock.mode} on {lock.relation.name} is waited for without lock_timeout",
                    statement,
                    lock.relation.name,
                    sized=False,
                )


RULE = Rule(
    "no-lock-timeout",
    "No lock_timeout",
    "lock_timeout is 0 when a lock is asked for that blocks applications.",
    "Behind one long query the revision waits, and everybody else waits behind the revision, however small the table.",
    """\
op.execute("SET LOCAL lock_timeout = '2s'")
op.add_column("app", sa.Column("flag", sa.Boolean))""",
    Severity.WARNING,
    _find,
    bad=Example('op.execute("SET LOCAL lock_timeout = 0")\nop.add_column("app", sa.Column("flag", sa.Boolean))'),
    good=Example('op.add_column("app", sa.Column("flag", sa.Boolean))'),
)
