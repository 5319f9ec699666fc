"""Upgrade, downgrade, upgrade does not lead back."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    outcome = context.outcome
    if outcome is None:
        return
    if outcome.refuses:
        yield Found(f"its downgrade refuses: {outcome.downgrade_error}", severity=Severity.NOTE)
    elif outcome.downgrade_error is not None:
        yield Found(f"its downgrade fails: {outcome.downgrade_error}")
    if outcome.second_error is not None:
        yield Found(f"after its downgrade it cannot be run again: {outcome.second_error}")
    elif outcome.leftovers:
        yield Found(f"its downgrade leaves {'; '.join(outcome.leftovers[:5])}")
    elif outcome.differences:
        yield Found(f"upgrade, downgrade, upgrade ends in another catalog: {'; '.join(outcome.differences[:5])}")


RULE = Rule(
    "not-reversible",
    "Not reversible",
    "The downgrade fails, is missing, leaves something, or the upgrade after it fails or ends in another catalog.",
    "The way back, needed in a hurry, does not lead to where the database was.",
    """\
op.drop_table("fresh")  # in downgrade(); a native enum needs its own DROP TYPE""",
    Severity.WARNING,
    _find,
    bad=Example(
        'op.create_table("fresh", sa.Column("state", sa.Enum("new", "old", name="state")))',
        downgrade='op.drop_table("fresh")',
    ),
    good=Example(
        'op.create_table("fresh", sa.Column("state", sa.Enum("new", "old", name="state")))',
        downgrade='op.drop_table("fresh")\nop.execute("DROP TYPE state")',
    ),
)
