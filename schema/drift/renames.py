"""Finds objects that have another name and are otherwise the same, so that each is told once and not as two."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from schema.pg.catalog import CatalogObject, Key, Kind
from schema.pg.catalog.columns import Column
from schema.pg.catalog.constraints import Constraint
from schema.pg.catalog.indexes import Index

Objects = dict[Key, CatalogObject]

_NAMED_IN_DEFINITION = {Kind.INDEX, Kind.TRIGGER, Kind.RULE, Kind.STATISTICS, Kind.FUNCTION}
# Containers first: what they contain is compared under the name that both sides know.
_ORDER = (
    Kind.ENUM,
    Kind.DOMAIN,
    Kind.TYPE,
    Kind.TABLE,
    Kind.VIEW,
    Kind.COLUMN,
    Kind.SEQUENCE,
    Kind.CONSTRAINT,
    Kind.INDEX,
    Kind.STATISTICS,
    Kind.FUNCTION,
    Kind.TRIGGER,
    Kind.RULE,
    Kind.POLICY,
)


def find_renames(first: Objects, second: Objects) -> tuple[Objects, list[tuple[CatalogObject, CatalogObject]]]:
    """Pair what only `first` has with what only `second` has.

    Returns:
        The second side with every renamed object under its first name, in all texts too, and the pairs as they were.
    """
    pairs: list[tuple[CatalogObject, CatalogObject]] = []
    for kind in _ORDER:
        gone = [found for key, found in first.items() if key.kind == kind and key not in second]
        new = [found for key, found in second.items() if key.kind == kind and key not in first]
        if not gone or not new:
            continue
        for old, renamed in _paired(gone, new, first, second):
            pairs.append((old, renamed))
            second = _translated(second, old, renamed)
    return second, pairs


def _paired(
    gone: list[CatalogObject], new: list[CatalogObject], first: Objects, second: Objects
) -> Iterable[tuple[CatalogObject, CatalogObject]]:
    """Pairs that are alike in all but the name, where only one of each side is."""
    by_signature: dict[Hashable, tuple[list[CatalogObject], list[CatalogObject]]] = defaultdict(lambda: ([], []))
    columns = {id(side): _columns_of(side) for side in (first, second)}
    for found in gone:
        by_signature[_signature(found, columns[id(first)])][0].append(found)
    for found in new:
        by_signature[_signature(found, columns[id(second)])][1].append(found)
    for ours, theirs in by_signature.values():
        if len(ours) == len(theirs) == 1 and _may_pair(ours[0], theirs[0], first, second):
            old, renamed = ours[0], theirs[0]
            names = [
                {column.name for column in columns[id(side)].get(found.identity, ())}
                for side, found in ((first, old), (second, renamed))
            ]
            # A column may be renamed with its table; two small tables that are merely alike are no rename.
            if old.kind != Kind.TABLE or 2 * len(names[0] & names[1]) >= len(names[0]):
                yield old, renamed


def _may_pair(old: CatalogObject, new: CatalogObject, first: Objects, second: Objects) -> bool:
    # Part of something that is itself gone or new: that is told by the container.
    return all(key in second for key in old.containers) and all(key in first for key in new.containers)


def _columns_of(side: Mapping[Key, CatalogObject]) -> dict[str, list[Column]]:
    columns: dict[str, list[Column]] = defaultdict(list)
    for found in side.values():
        if isinstance(found, Column):
            columns[found.table].append(found)
    return {table: sorted(members, key=lambda each: each.position) for table, members in columns.items()}


def _signature(found: CatalogObject, columns: Mapping[str, list[Column]]) -> Hashable:
    """All that makes an object what it is, but for its name."""
    name = str(getattr(found, "name", ""))
    attributes = found.attributes()
    if found.kind in _NAMED_IN_DEFINITION and isinstance(attributes.get("definition"), str):
        attributes["definition"] = _pattern(_own_name(found, name)).sub("\0", str(attributes["definition"]))
    place: Hashable = found.containers
    if isinstance(found, Column):
        # The server names a column's NOT NULL after it; the place tells two alike columns apart.
        attributes.pop("not null constraint")
        attributes.pop("identity sequence")
        place = (found.table, found.position)
    if isinstance(found, Index):
        attributes.pop("constraint")
    shape = (
        tuple((each.type, each.not_null) for each in columns.get(found.identity, ()))
        if found.kind == Kind.TABLE
        else ()
    )
    return (place, tuple(attributes.items()), shape)


def _own_name(found: CatalogObject, name: str) -> str:
    return found.identity.partition("(")[0] if found.kind == Kind.FUNCTION else name


def _pattern(name: str) -> re.Pattern[str]:
    """A quoted name where it stands for itself, not as a part of a longer one."""
    return re.compile(rf'(?<![\w$".]){re.escape(name)}(?![\w$"])')


def _translated(side: Objects, old: CatalogObject, new: CatalogObject) -> Objects:
    """The side with the renamed object called as before, wherever it is named."""
    if isinstance(old, Constraint):
        change = _constraint_change(old, new)
    elif isinstance(old, Column):
        change = _text_change(str(new.name), old.name, within=old.table)  # type: ignore[attr-defined]
    else:
        change = _text_change(new.identity, old.identity)
    # By key: an earlier rename may have put another value in its place.
    changed = (replace(old) if found.key == new.key else change(found) for found in side.values())
    return {found.key: found for found in changed}


def _constraint_change(old: Constraint, new: CatalogObject) -> Callable[[CatalogObject], CatalogObject]:
    def change(found: CatalogObject) -> CatalogObject:
        # The index behind a constraint is renamed with it.
        if isinstance(found, Index) and found.table == old.table and found.constraint == getattr(new, "name", None):
            return replace(found, name=old.name, constraint=old.name)
        return found

    return change


def _text_change(new: str, old: str, within: str | None = None) -> Callable[[CatalogObject], CatalogObject]:
    pattern = _pattern(new)

    def text(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda _: old, value) if new in value else value
        return tuple(text(item) for item in value) if isinstance(value, tuple) else value

    def change(found: CatalogObject) -> CatalogObject:
        if within is not None and (getattr(found, "table", None) != within or isinstance(found, Column)):
            return found
        changes = {}
        for field in fields(found):
            if field.name in {"name", "schema", "comment"}:
                continue
            before = getattr(found, field.name)
            after = text(before)
            if after != before:
                changes[field.name] = after
        return replace(found, **changes) if changes else found

    return change
