"""A name is longer than PostgreSQL keeps."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for text in statement.notices:
            if text.startswith("identifier ") and " will be truncated to " in text:
                yield Found(text, statement)


RULE = Rule(
    "name-truncated",
    "Name over 63 bytes",
    "The server cuts a name short.",
    "The object has another name than the code says, and two long names may become the same.",
    "",
    Severity.WARNING,
    _find,
    bad=Example('op.execute("CREATE TABLE " + 64 * "a" + " (id int)")'),
    good=Example('op.execute("CREATE TABLE " + 63 * "a" + " (id int)")'),
)
