"""A statement that blocks applications may run without an end."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import dangerous, slow


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        locks = dangerous(statement)
        if locks and statement.statement_timeout_ms == 0:
            yield Found(
                f"{locks[0].mode} on {locks[0].relation.name} may be held without end: there is no statement_timeout",
                statement,
                locks[0].relation.name,
                Severity.WARNING if slow(context, statement) else Severity.NOTE,
            )


RULE = Rule(
    "no-statement-timeout",
    "No statement_timeout",
    "statement_timeout is 0 when a statement takes a lock that blocks applications.",
    "A statement that takes longer than anybody thought blocks until somebody cancels it.",
    """\
op.execute("SET LOCAL statement_timeout = '10s'")
op.add_column("app", sa.Column("flag", sa.Boolean))""",
    Severity.WARNING,
    _find,
    bad=Example('op.execute("SET LOCAL statement_timeout = 0")\nop.add_column("app", sa.Column("flag", sa.Boolean))'),
    good=Example('op.add_column("app", sa.Column("flag", sa.Boolean))'),
)
