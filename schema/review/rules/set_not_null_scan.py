"""SET NOT NULL reads the table."""

from collections.abc import Iterator

from schema.pg.catalog.columns import Column
from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, changed, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        if any(key.sort == "PRIMARY KEY" for key in added(statement, Constraint)):
            continue
        for old, new in changed(statement, Column):
            table = existing(context, new.table, statement)
            if new.not_null and not old.not_null and table is not None and statement.noted("verifying table ", table):
                yield Found(f"{new.name} of {table.name} is set NOT NULL after a scan", statement, table.name)


RULE = Rule(
    "set-not-null-scan",
    "SET NOT NULL scans the table",
    "A column of a table that existed before becomes NOT NULL, and no validated CHECK proves that it has no NULL.",
    "Reads and writes wait for the scan: the lock is ACCESS EXCLUSIVE.",
    """\
op.execute("ALTER TABLE app ADD CONSTRAINT number_present CHECK (number IS NOT NULL) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_present")
op.alter_column("app", "number", nullable=False)
op.drop_constraint("number_present", "app")""",
    Severity.ERROR,
    _find,
    bad=Example('op.alter_column("app", "number", nullable=False)'),
    good=Example("""\
op.execute("ALTER TABLE app ADD CONSTRAINT number_present CHECK (number IS NOT NULL) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_present")
op.alter_column("app", "number", nullable=False)
op.drop_constraint("number_present", "app")"""),
)
