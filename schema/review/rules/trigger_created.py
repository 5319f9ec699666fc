"""CREATE TRIGGER blocks writes."""

from collections.abc import Iterator

from schema.pg.catalog.triggers import Trigger
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for trigger in added(statement, Trigger):
            if existing(context, trigger.table, statement) is not None:
                yield Found(f"trigger {trigger.name} is made on {trigger.table}", statement, trigger.table, sized=False)


RULE = Rule(
    "trigger-created",
    "Trigger on an existing table",
    "A trigger is made on a table that existed before.",
    "Writes wait for SHARE ROW EXCLUSIVE until the transaction ends, and each later write does more.",
    """\
op.execute("SET LOCAL lock_timeout = '2s'")
op.execute(
    "CREATE TRIGGER app_check BEFORE UPDATE ON app FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
)""",
    Severity.NOTE,
    _find,
    bad=Example(
        'op.execute("CREATE TRIGGER t BEFORE UPDATE ON app FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()")'
    ),
    good=Example("""\
op.execute("CREATE TABLE fresh (id int)")
op.execute("CREATE TRIGGER t BEFORE UPDATE ON fresh FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()")"""),
)
