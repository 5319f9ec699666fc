"""Suggests what would make the found side like the wanted one. Nothing here is ever executed."""

from dataclasses import dataclass

from schema.drift.comparators import comparator
from schema.drift.difference import Change, Difference
from schema.pg.catalog import Kind

_HOLDS_DATA = {Kind.TABLE, Kind.COLUMN, Kind.SCHEMA, Kind.SEQUENCE, Kind.EXTENSION}
_ALONE = ("CREATE INDEX CONCURRENTLY", "CREATE UNIQUE INDEX CONCURRENTLY", "DROP INDEX CONCURRENTLY", "REINDEX ")


@dataclass(frozen=True)
class Repair:
    """Statements that repair a difference, or what to do by hand."""

    statements: tuple[str, ...]
    loses_data: bool
    """What goes holds rows, or a type change may not keep them."""

    @property
    def alone(self) -> bool:
        """The statements can't run inside a transaction."""
        return any(statement.startswith(_ALONE) or " ADD VALUE " in statement for statement in self.statements)


def repair(difference: Difference) -> Repair:
    """The statements that make what was found as it is wanted; none when they are better written by hand."""
    judging, first, second = comparator(difference.kind), difference.first, difference.second
    statements: list[str] = []
    loses = False
    match difference.change:
        case Change.MISSING:
            statements = judging.created(first)
        case Change.EXTRA:
            statements = judging.dropped(second)
            loses = difference.kind in _HOLDS_DATA
        case Change.RENAMED:
            statements = judging.renamed(first, second)
        case Change.CHANGED if first is not None and second is not None and difference.attribute is not None:
            statements = judging.altered(first, second, difference.attribute)
            loses = difference.kind == Kind.COLUMN and difference.attribute in {"type", "generated"}
    return Repair(tuple(statements), loses)


def reversed_difference(difference: Difference) -> Difference:
    """The same difference, seen from the other side."""
    changes = {Change.MISSING: Change.EXTRA, Change.EXTRA: Change.MISSING}
    name = difference.second.identity if difference.change is Change.RENAMED and difference.second else None
    return Difference(
        difference.kind,
        name or difference.identity,
        changes.get(difference.change, difference.change),
        difference.attribute,
        difference.found,
        difference.wanted,
        difference.equivalent,
        difference.second,
        difference.first,
    )
