"""A comment that accepts a finding which is not there."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(_: Context) -> Iterator[Found]:
    # Only after all other rules is it known which comments are needed: the review adds these findings.
    yield from ()


RULE = Rule(
    "unused-acceptance",
    "Accepted finding that is not there",
    "A comment `# schemactl: accept RULE -- reason` matches no finding, or gives no reason.",
    "It would hide the next finding of that rule, which nobody has looked at.",
    """\
# schemactl: accept index-blocking -- the table has forty rows
op.create_index("ix_app_number", "app", ["number"])""",
    Severity.WARNING,
    _find,
    bad=Example("""\
# schemactl: accept column-rewrite -- it was so once
op.create_index("ix_app_number", "app", ["number"])"""),
    good=Example("""\
# schemactl: accept index-blocking -- the table has forty rows
op.create_index("ix_app_number", "app", ["number"])"""),
)
