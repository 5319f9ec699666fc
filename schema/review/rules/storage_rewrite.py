"""A table changes how or where it is stored."""

from collections.abc import Iterator

from schema.pg.catalog.tables import Table
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import changed


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        written = {each.name for each in statement.rewritten}
        for old, new in changed(statement, Table):
            for attribute in ("persistence", "tablespace", "access_method"):
                before, after = getattr(old, attribute), getattr(new, attribute)
                if before != after and new.identity in written:
                    what = attribute.replace("_", " ")
                    yield Found(
                        f"{what} of {new.identity} from {before} to {after} rewrites it", statement, new.identity
                    )


RULE = Rule(
    "storage-rewrite",
    "SET LOGGED, UNLOGGED, TABLESPACE or ACCESS METHOD",
    "A table that existed before gets another persistence, tablespace or access method.",
    "Reads and writes wait while it is written anew; to LOGGED all of it goes through the WAL to every replica.",
    "",
    Severity.ERROR,
    _find,
    bad=Example('op.execute("ALTER TABLE app SET UNLOGGED")'),
    good=Example('op.execute("ALTER TABLE app SET (fillfactor = 90)")'),
)
