"""Compares two snapshots, object by object and attribute by attribute."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from schema.drift.comparators import comparator
from schema.drift.difference import Change, Difference, shown
from schema.drift.judge import Judge
from schema.drift.renames import Objects, find_renames
from schema.pg.catalog import CatalogObject, Key, Kind, Snapshot
from schema.pg.catalog.columns import Column
from schema.pg.catalog.tables import Table

_ORDER = {kind: rank for rank, kind in enumerate(Kind)}


def compare(first: Snapshot, second: Snapshot, *, judge: Judge | None = None) -> list[Difference]:
    """Find every difference of the second snapshot from the first, which is taken as what is wanted.

    Args:
        first: What is wanted.
        second: What was found.
        judge: Decides on a server whether two texts mean the same; it works in a database that is like `first`.
            Without it only what needs no server is recognised as equivalent.

    Returns:
        In the order of `Kind`, then by identity. Parts of something missing or extra are not listed again.
    """
    wanted: Objects = dict(first.objects)
    found, pairs = find_renames(wanted, dict(second.objects))
    differences = [_renamed(old, new) for old, new in pairs]
    differences += _missing(wanted, found, Change.MISSING)
    differences += _missing(found, wanted, Change.EXTRA)
    differences += [
        each
        for key, one in wanted.items()
        if (other := found.get(key)) is not None and one != other
        for each in _changed(one, other)
    ]
    differences += _column_orders(wanted, found)
    differences = list(_without_inherited(differences, wanted, found))
    if judge is not None:
        differences = [_judged(each, judge) for each in differences]
    return sorted(differences, key=lambda each: (_ORDER[each.kind], each.identity, each.attribute or ""))


def _renamed(old: CatalogObject, new: CatalogObject) -> Difference:
    return Difference(
        old.kind,
        old.identity,
        Change.RENAMED,
        wanted=old.identity,
        found=new.identity,
        equivalent=comparator(old.kind).same_name(old, new),
        first=old,
        second=new,
    )


def _missing(one: Objects, other: Objects, change: Change) -> Iterator[Difference]:
    gone = {key for key in one if key not in other}
    for key in gone:
        lacking = one[key]
        if gone.isdisjoint(lacking.containers):
            text = comparator(key.kind).summary(lacking)
            yield (
                Difference(key.kind, key.identity, change, wanted=text, first=lacking)
                if change is Change.MISSING
                else Difference(key.kind, key.identity, change, found=text, second=lacking)
            )


def _changed(one: CatalogObject, other: CatalogObject) -> Iterator[Difference]:
    judging = comparator(one.kind)
    after = judging.attributes(other)
    before = judging.attributes(one)
    for attribute in {**before, **after}:
        wanted, found = before.get(attribute), after.get(attribute)
        if wanted == found:
            continue
        if judging.told_elsewhere(one, other, attribute):
            continue
        reason = judging.equivalent(one, other, attribute)
        if attribute.endswith("privileges") and isinstance(wanted, tuple) and isinstance(found, tuple):
            wanted, found = _only(wanted, found), _only(found, wanted)
        yield Difference(
            one.kind, one.identity, Change.CHANGED, attribute, shown(wanted), shown(found), reason, one, other
        )


def _only(items: tuple[object, ...], others: tuple[object, ...]) -> tuple[object, ...]:
    """What only the first of two lists has."""
    return tuple(item for item in items if item not in others)


def _column_orders(wanted: Objects, found: Objects) -> Iterator[Difference]:
    ours, theirs = _columns(wanted), _columns(found)
    for table, columns in ours.items():
        others = theirs.get(table, [])
        one = [name for name in columns if name in set(others)]
        other = [name for name in others if name in set(columns)]
        key = Key(Kind.TABLE, table)
        if one != other and key in wanted:
            yield Difference(
                Kind.TABLE,
                table,
                Change.CHANGED,
                "column order",
                ", ".join(one),
                ", ".join(other),
                first=wanted[key],
                second=found.get(key),
            )


def _columns(side: Objects) -> dict[str, list[str]]:
    places: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for each in side.values():
        if isinstance(each, Column):
            places[each.table].append((each.position, each.name))
    return {table: [name for _, name in sorted(columns)] for table, columns in places.items()}


def _without_inherited(differences: Iterable[Difference], wanted: Objects, found: Objects) -> Iterator[Difference]:
    """Leave out what a partition or child table has from its parent: the parent's difference tells it."""
    told = {(each.kind, each.identity, each.change, each.attribute, each.found) for each in differences}
    for each in differences:
        column = each.first or each.second
        if isinstance(column, Column) and any(
            (each.kind, f"{parent}.{column.name}", each.change, each.attribute, each.found) in told
            for parent in _parents(column.table, wanted, found)
        ):
            continue
        yield each


def _parents(table: str, *sides: Objects) -> set[str]:
    parents: set[str] = set()
    for side in sides:
        owner = side.get(Key(Kind.TABLE, table))
        if isinstance(owner, Table):
            parents.update(owner.inherits)
    return parents


def _judged(difference: Difference, judge: Judge) -> Difference:
    one, other = difference.first, difference.second
    if difference.equivalent or difference.attribute is None or one is None or other is None:
        return difference
    reason = judge.same(one, other, difference.attribute)
    return replace(difference, equivalent=reason)
