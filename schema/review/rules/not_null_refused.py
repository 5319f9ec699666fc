"""ADD COLUMN NOT NULL without a default fails as soon as there is a row."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    refused = context.trace.refused
    if refused is not None and refused.sqlstate == "23502":
        yield Found(f"it fails on a table with rows: {refused.error}", refused, sized=False)


RULE = Rule(
    "not-null-refused",
    "NOT NULL that existing rows break",
    "The server answers 23502 when the tables have rows: ADD COLUMN NOT NULL without a default, or NULLs in the way.",
    "The revision fails in production, and passes in every empty test database.",
    """\
op.add_column("app", sa.Column("state", sa.String(20), nullable=False, server_default="new"))""",
    Severity.ERROR,
    _find,
    bad=Example('op.add_column("app", sa.Column("state", sa.String(20), nullable=False))'),
    good=Example('op.add_column("app", sa.Column("state", sa.String(20), nullable=False, server_default="new"))'),
)
