"""TRUNCATE."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        cascaded = {text.strip('"') for text in statement.notes("truncate cascades to table ")}
        for table in statement.rewritten:
            if table.kind == "r" and table.tuples < 0 and not statement.changes and context.trace.rows.get(table.oid):
                by = ", by CASCADE" if table.name.partition(".")[2] in cascaded else ""
                yield Found(
                    f"{table.name} is emptied{by} ({context.trace.rows[table.oid]} rows here)",
                    statement,
                    table.name,
                    sized=False,
                )


RULE = Rule(
    "truncated",
    "TRUNCATE",
    "A table that existed before is emptied; with CASCADE those that refer to it are as well.",
    "The rows are gone, under ACCESS EXCLUSIVE, and no downgrade brings them back.",
    "",
    Severity.ERROR,
    _find,
    bad=Example('op.execute("TRUNCATE app")'),
    good=Example('op.execute("DELETE FROM app WHERE id = 1")'),
)
