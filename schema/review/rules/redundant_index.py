"""An index that another one makes unnecessary."""

from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.pg.catalog.indexes import Index
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.foreign_key_without_index import _CONSTRAINT, _INDEX, columns_of
from schema.review.rules.support import added


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for index in added(statement, Index):
            definition = index.definition or ""
            columns = columns_of(definition, _INDEX)
            rest = definition.rpartition(")")[2] if columns else ""
            if (
                not columns
                or " UNIQUE " in definition
                or " WHERE " in definition
                or " INCLUDE " in definition
                or rest.strip()
            ):
                continue
            for other, wider, older in _others(context, index):
                # Of two that are new, one of them.
                if wider[: len(columns)] == columns and (len(wider) > len(columns) or older or other < index.name):
                    yield Found(
                        f"{index.identity} is the beginning of {other} or the same", statement, index.table, sized=False
                    )
                    break


def _others(context: Context, index: Index) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    for other in context.trace.after.of(Index):
        definition = other.definition or ""
        if other.table == index.table and other.identity != index.identity and " WHERE " not in definition:
            yield other.name, columns_of(definition, _INDEX), other.key in context.trace.before.objects
    for constraint in context.trace.after.of(Constraint):
        if constraint.table == index.table:
            yield constraint.identity, columns_of(constraint.definition, _CONSTRAINT), True


RULE = Rule(
    "redundant-index",
    "Redundant index",
    "A new index has the same columns as another one, or its first ones.",
    "Each write keeps up both, and no query needs the second.",
    "",
    Severity.NOTE,
    _find,
    bad=Example(
        'op.execute("CREATE TABLE fresh (a int, b int)")\nop.create_index("ix_a", "fresh", ["a"])\nop.create_index("ix_ab", "fresh", ["a", "b"])'
    ),
    good=Example(
        'op.execute("CREATE TABLE fresh (a int, b int)")\nop.create_index("ix_b", "fresh", ["b"])\nop.create_index("ix_ab", "fresh", ["a", "b"])'
    ),
)
