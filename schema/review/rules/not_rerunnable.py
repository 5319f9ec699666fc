"""A failure in the middle leaves what the next attempt stumbles over."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    for number, why in context.outcome.rerun if context.outcome else ():
        statement = next((each for each in context.trace.statements if each.number == number), None)
        yield Found(f"after a failure at statement {number} it cannot be run again: {why}", statement, sized=False)


RULE = Rule(
    "not-rerunnable",
    "Cannot be run again after a failure",
    "What comes before an autocommit block commits without the version row; with a failure injected there, the next attempt fails or ends in another catalog.",
    "Somebody has to repair the database by hand, at the worst time.",
    """\
op.execute("ALTER TABLE app ADD COLUMN IF NOT EXISTS flag boolean")
with op.get_context().autocommit_block():
    op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_app_flag")
    op.create_index("ix_app_flag", "app", ["flag"], postgresql_concurrently=True)""",
    Severity.WARNING,
    _find,
    bad=Example(
        """\
op.add_column("app", sa.Column("flag", sa.Boolean))
with op.get_context().autocommit_block():
    op.create_index("ix_app_flag", "app", ["flag"], postgresql_concurrently=True)""",
        downgrade='op.drop_column("app", "flag")',
    ),
    good=Example(
        """\
op.execute("ALTER TABLE app ADD COLUMN IF NOT EXISTS flag boolean")
with op.get_context().autocommit_block():
    op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_app_flag")
    op.create_index("ix_app_flag", "app", ["flag"], postgresql_concurrently=True)""",
        downgrade='op.drop_column("app", "flag")',
    ),
)
