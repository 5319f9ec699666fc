"""Rows that exist may break a new constraint."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity

_STATES = {"23503": "foreign key", "23505": "unique constraint", "23514": "CHECK", "23P01": "EXCLUDE constraint"}


def _find(context: Context) -> Iterator[Found]:
    refused = context.trace.refused
    if refused is not None and refused.sqlstate in _STATES:
        count = context.trace.duplicates
        twice = f"; {count} key{'s occur' if count != 1 else ' occurs'} more than once" if count is not None else ""
        yield Found(
            f"rows of the scratch database break its {_STATES[refused.sqlstate]}: {refused.error}{twice}",
            refused,
            sized=False,
        )


RULE = Rule(
    "rows-refused",
    "Existing rows may break a new constraint",
    "A UNIQUE, CHECK, EXCLUDE or FOREIGN KEY is refused on the rows of the scratch database.",
    "It fails in production as well, if rows there are like those. Count them before the release.",
    """\
bad = op.get_bind().scalar(sa.text("SELECT count(*) FROM app WHERE number <= 1000"))
if bad:
    raise RuntimeError(f"{bad} rows of app have a number that the new CHECK refuses")
op.execute("ALTER TABLE app ADD CONSTRAINT number_large CHECK (number > 1000) NOT VALID")""",
    Severity.WARNING,
    _find,
    bad=Example('op.create_check_constraint("number_large", "app", "number > 1000")'),
    good=Example('op.create_check_constraint("number_positive", "app", "number > 0")'),
)
