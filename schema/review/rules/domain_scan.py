"""A domain is created or altered over tables that use it."""

from collections.abc import Iterator

from schema.pg.catalog.types import Domain
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import changed, dangerous


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for _, domain in changed(statement, Domain):
            for lock in dangerous(statement):
                if lock.relation.oid in statement.scanned:
                    yield Found(
                        f"domain {domain.identity} is checked on every row of {lock.relation.name} under {lock.mode}",
                        statement,
                        lock.relation.name,
                    )


RULE = Rule(
    "domain-scan",
    "Domain constraint scans its users",
    "A domain's constraint is added and every table that uses the domain is read.",
    "Writes to all of these tables wait for the scans.",
    """\
op.execute("ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 1000) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER DOMAIN positive VALIDATE CONSTRAINT small")  # scans under SHARE: at a quiet hour""",
    Severity.ERROR,
    _find,
    bad=Example(
        'op.execute("ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 1000)")',
        setup="CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TABLE counted (n positive)",
    ),
    good=Example(
        'op.execute("ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 1000) NOT VALID")',
        setup="CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TABLE counted (n positive)",
    ),
)
