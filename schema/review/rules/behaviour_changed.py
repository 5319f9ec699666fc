"""Something works differently for code that runs already."""

from collections.abc import Iterator

from schema.pg.catalog.columns import Column
from schema.pg.catalog.policies import Policy
from schema.pg.catalog.tables import Table
from schema.pg.catalog.triggers import Trigger
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, changed, existing, removed


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for column, now in changed(statement, Column):
            if existing(context, now.table, statement) is None:
                continue
            if column.not_null and not now.not_null:
                yield Found(f"{now.identity} may be NULL from now on", statement, now.table, sized=False)
            if column.default != now.default:
                yield Found(
                    f"the default of {now.identity} is {now.default or 'none'}, it was {column.default or 'none'}",
                    statement,
                    now.table,
                    sized=False,
                )
            if set(column.privileges) - set(now.privileges):
                yield Found(f"privileges on {now.identity} are revoked", statement, now.table, sized=False)
        for table, after in changed(statement, Table):
            if existing(context, after.identity, statement) is None:
                continue
            for attribute in ("row_security", "forced_row_security", "replica_identity"):
                if getattr(table, attribute) != getattr(after, attribute):
                    yield Found(
                        f"{attribute.replace('_', ' ')} of {after.identity} changes",
                        statement,
                        after.identity,
                        sized=False,
                    )
            if set(table.privileges) - set(after.privileges):
                yield Found(f"privileges on {after.identity} are revoked", statement, after.identity, sized=False)
        for trigger, later in changed(statement, Trigger):
            if trigger.enabled != later.enabled:
                yield Found(
                    f"trigger {later.identity} is {later.enabled}, it was {trigger.enabled}",
                    statement,
                    later.table,
                    sized=False,
                )
        policies = [
            *added(statement, Policy),
            *removed(statement, Policy),
            *(new for _, new in changed(statement, Policy)),
        ]
        for policy in policies:
            if existing(context, policy.table, statement) is not None:
                yield Found(
                    f"policy {policy.identity} decides which rows are seen", statement, policy.table, sized=False
                )


RULE = Rule(
    "behaviour-changed",
    "Behaviour of an existing table changes",
    "NOT NULL goes, a default, replica identity, row security, a policy or a trigger's state changes, or a privilege is revoked.",
    "No lock shows it: code that runs already sees NULLs, other values, fewer rows or a refusal.",
    "",
    Severity.WARNING,
    _find,
    bad=Example('op.alter_column("app", "created", nullable=True)'),
    good=Example('op.add_column("app", sa.Column("flag", sa.Boolean))'),
)
