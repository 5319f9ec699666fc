"""A foreign key is dropped."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import dangerous, existing, removed


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        gone = {each.name for each in statement.dropped}
        for key in removed(statement, Constraint):
            table = existing(context, key.table, statement)
            if (
                key.sort != "FOREIGN KEY"
                or table is None
                or key.table in gone
                or any(old.name == key.table for old, _ in statement.renamed)
            ):
                continue
            locked = " and ".join(f"{lock.relation.name} ({lock.mode})" for lock in dangerous(statement))
            yield Found(
                f"foreign key {key.name} of {key.table} goes; it locks {locked}", statement, key.table, sized=False
            )


RULE = Rule(
    "foreign-key-dropped",
    "Foreign key dropped",
    "A foreign key of a table that stays is dropped.",
    "ACCESS EXCLUSIVE on both tables until the transaction ends, and rows may refer to nothing from then on.",
    """\
op.execute("SET LOCAL lock_timeout = '2s'")
op.drop_constraint("app_parent", "app", type_="foreignkey")  # alone in its revision""",
    Severity.WARNING,
    _find,
    bad=Example(
        'op.drop_constraint("app_parent", "app", type_="foreignkey")',
        setup="ALTER TABLE app ADD CONSTRAINT app_parent FOREIGN KEY (parent_id) REFERENCES parent",
    ),
    good=Example(
        'op.drop_constraint("app_positive", "app")',
        setup="ALTER TABLE app ADD CONSTRAINT app_positive CHECK (number > 0)",
    ),
)
