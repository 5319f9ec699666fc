"""A native enum is created."""

from collections.abc import Iterator

from schema.pg.catalog.types import Enum
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, renamed_objects


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for enum in added(statement, Enum):
            if enum not in (new for _, new in renamed_objects(statement)):
                yield Found(f"enum {enum.identity} is made", statement)


RULE = Rule(
    "native-enum",
    "Native ENUM created",
    "A type of CREATE TYPE … AS ENUM is made.",
    "A value can be added but never removed, and a new one cannot be used in the transaction that adds it.",
    """\
op.add_column("app", sa.Column("state", sa.String(20)))  # with a CHECK, or an enum of the application""",
    Severity.NOTE,
    _find,
    bad=Example("op.execute(\"CREATE TYPE state AS ENUM ('new', 'old')\")"),
    good=Example('op.add_column("app", sa.Column("state", sa.String(20)))'),
)
