"""Two arms of a merge touch the same object."""

from collections.abc import Iterator

from schema.pg.catalog import Key, Kind
from schema.review.facts import Trace
from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    if len(context.trace.parents) < 2:
        return
    traces = {each.revision.id: each for each in context.traces}
    arms = [_below(parent, traces) for parent in context.trace.parents]
    for number, arm in enumerate(arms):
        for other in arms[number + 1 :]:
            one = {key for id_ in arm - other for key in _touched(traces[id_])}
            two = {key for id_ in other - arm for key in _touched(traces[id_])}
            for key in sorted(one & two):
                yield Found(f"both arms touch {key.kind} {key.identity}: which one ran last decides", sized=False)


def _below(revision: str, traces: dict[str, Trace]) -> set[str]:
    """The revision and those of the set that it stands on."""
    found: set[str] = set()
    waiting = [revision]
    while waiting:
        id_ = waiting.pop()
        if id_ in traces and id_ not in found:
            found.add(id_)
            waiting += traces[id_].parents
    return found


def _touched(trace: Trace) -> Iterator[Key]:
    for statement in trace.statements:
        for change in statement.changes:
            either = change.after or change.before
            assert either is not None
            yield change.key
            # A column, index or constraint touches its table.
            yield from (container for container in either.containers if container.kind is Kind.TABLE)


RULE = Rule(
    "merged-arms",
    "Both arms of a merge touch one object",
    "Revisions of two arms that a merge revision joins change the same table or other object.",
    "Databases run the arms in different orders, and may end up different.",
    "",
    Severity.WARNING,
    _find,
    bad=Example(
        "pass",
        arms=('op.execute("ALTER TABLE app ADD COLUMN a int")', 'op.execute("ALTER TABLE app ADD COLUMN b int")'),
    ),
    good=Example(
        "pass",
        arms=('op.execute("ALTER TABLE app ADD COLUMN a int")', 'op.execute("ALTER TABLE parent ADD COLUMN b int")'),
    ),
)
