"""A revision that cannot be written as an SQL script."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    if context.offline is not None:
        yield Found(f"`alembic upgrade --sql` fails: {context.offline}")


RULE = Rule(
    "needs-connection",
    "Cannot be written as an SQL script",
    "`offline = true` is set, and the revision fails without a connection, as `alembic upgrade --sql` runs it.",
    "Whoever deploys by scripts stands still at it.",
    """\
op.execute("UPDATE app SET number = 0 WHERE number IS NULL")  # the server decides, nothing is asked first""",
    Severity.WARNING,
    _find,
    bad=Example('op.get_bind().execute(sa.text("SELECT count(*) FROM app")).scalar_one()'),
    good=Example('op.execute("UPDATE app SET number = 0 WHERE id = 1")'),
)
