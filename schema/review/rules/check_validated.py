"""A CHECK is added and every row checked under the same lock."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        if not statement.notes("verifying table ") and not statement.rewritten:
            continue
        for constraint in added(statement, Constraint):
            if constraint.sort == "CHECK" and constraint.validated and existing(context, constraint.table, statement):
                yield Found(
                    f"{constraint.name} is checked against every row while {constraint.table} is locked",
                    statement,
                    constraint.table,
                )


RULE = Rule(
    "check-validated",
    "CHECK added without NOT VALID",
    "A CHECK is added to a table that existed before, and every row is read to prove it.",
    "Reads and writes wait for the scan: the lock is ACCESS EXCLUSIVE.",
    """\
op.create_check_constraint("number_positive", "app", "number > 0", postgresql_not_valid=True)
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")""",
    Severity.ERROR,
    _find,
    bad=Example('op.create_check_constraint("number_positive", "app", "number > 0")'),
    good=Example("""\
op.execute("ALTER TABLE app ADD CONSTRAINT number_positive CHECK (number > 0) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")"""),
)
