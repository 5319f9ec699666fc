"""NOT VALID and VALIDATE in one transaction."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import changed, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for old, new in changed(statement, Constraint):
            table = existing(context, new.table, statement)
            if old.validated or not new.validated or table is None:
                continue
            held = [lock.mode for lock in statement.held if lock.relation.oid == table.oid and lock.mode.dangerous]
            if held:
                yield Found(
                    f"{new.name} is validated while the transaction still holds {max(held)} on {table.name}",
                    statement,
                    table.name,
                )


RULE = Rule(
    "validate-while-locked",
    "NOT VALID and VALIDATE in one transaction",
    "A constraint is validated in a transaction that holds a lock on the table which blocks applications.",
    "NOT VALID wins nothing: the lock of ADD CONSTRAINT is held while VALIDATE reads every row.",
    """\
op.execute("ALTER TABLE app ADD CONSTRAINT number_positive CHECK (number > 0) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")""",
    Severity.ERROR,
    _find,
    bad=Example("""\
op.execute("ALTER TABLE app ADD CONSTRAINT number_positive CHECK (number > 0) NOT VALID")
op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")"""),
    good=Example("""\
op.execute("ALTER TABLE app ADD CONSTRAINT number_positive CHECK (number > 0) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")"""),
)
