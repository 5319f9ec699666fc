"""An EXCLUDE constraint on a table that existed before."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for constraint in added(statement, Constraint):
            if constraint.sort == "EXCLUDE" and existing(context, constraint.table, statement):
                yield Found(
                    f"{constraint.name} is built while {constraint.table} is locked", statement, constraint.table
                )


RULE = Rule(
    "exclude-constraint",
    "EXCLUDE constraint on an existing table",
    "An EXCLUDE constraint is added to a table that existed before.",
    "Reads and writes wait while its index is built. PostgreSQL has no form of it that does not block: plan a window.",
    "",
    Severity.ERROR,
    _find,
    bad=Example('op.execute("ALTER TABLE app ADD CONSTRAINT one EXCLUDE USING btree (id WITH =)")'),
    good=Example('op.execute("CREATE TABLE fresh (id int, CONSTRAINT one EXCLUDE USING btree (id WITH =))")'),
)
