"""A constraint is still NOT VALID at the end of the set."""

from collections.abc import Iterator

from schema.pg.catalog import Key, Kind
from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    if not context.final:
        return
    first = context.traces[0].before if context.traces else context.trace.before
    for constraint in context.trace.after.of(Constraint):
        known = first.objects.get(Key(Kind.CONSTRAINT, constraint.identity))
        if constraint.validated or not constraint.enforced or known is not None:
            continue
        maker = next(
            (
                statement
                for statement in context.trace.statements
                for change in statement.changes
                if change.key == constraint.key and change.before is None
            ),
            None,
        )
        yield Found(f"{constraint.name} of {constraint.table} is still NOT VALID", maker, constraint.table, sized=False)


RULE = Rule(
    "left-not-valid",
    "Constraint left NOT VALID",
    "A constraint that the revisions add is not validated by the last of them.",
    "Older rows may break it; the planner does not use it, and nobody remembers to validate it.",
    """\
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")""",
    Severity.WARNING,
    _find,
    bad=Example('op.execute("ALTER TABLE app ADD CONSTRAINT number_positive CHECK (number > 0) NOT VALID")'),
    good=Example("""\
op.execute("ALTER TABLE app ADD CONSTRAINT number_positive CHECK (number > 0) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT number_positive")"""),
)
