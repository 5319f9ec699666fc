"""A foreign key is added and every row checked under the same lock."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, bare, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        checked = statement.notes("validating foreign key constraint ")
        for key in added(statement, Constraint):
            if (
                key.sort == "FOREIGN KEY"
                and any(text.startswith(f'"{bare(key.name)}"') for text in checked)
                and existing(context, key.table, statement)
            ):
                yield Found(f"{key.name} is checked against every row while writes wait", statement, key.table)


RULE = Rule(
    "foreign-key-validated",
    "Foreign key added without NOT VALID",
    "A foreign key is added to a table that existed before, and every row is checked with it.",
    "Writes to both tables wait for the check: SHARE ROW EXCLUSIVE on each.",
    """\
op.create_foreign_key("app_parent", "app", "parent", ["parent_id"], ["id"], postgresql_not_valid=True)
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT app_parent")""",
    Severity.ERROR,
    _find,
    bad=Example('op.create_foreign_key("app_parent", "app", "parent", ["parent_id"], ["id"])'),
    good=Example("""\
op.create_foreign_key("app_parent", "app", "parent", ["parent_id"], ["id"], postgresql_not_valid=True)
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT app_parent")"""),
)
