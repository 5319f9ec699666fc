"""Snapshots as text, for a cache."""

from dataclasses import fields
from types import MappingProxyType
from typing import Any

from schema.pg.catalog.base import CatalogObject
from schema.pg.catalog.snapshot import SOURCES, Snapshot

_TYPES = {source.type.__name__: source.type for source in SOURCES}


def dump_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as what JSON can hold."""
    rows: dict[str, list[list[Any]]] = {}
    for found in snapshot.objects.values():
        names = [field.name for field in fields(found)]
        rows.setdefault(type(found).__name__, []).append([getattr(found, name) for name in names])
    return {"database": snapshot.database, "server_version": snapshot.server_version, "objects": rows}


def load_snapshot(data: dict[str, Any]) -> Snapshot:
    """The snapshot that `dump_snapshot` made.

    Raises:
        KeyError, TypeError, ValueError: another version of this package made it.
    """
    objects: list[CatalogObject] = [_TYPES[name].of_row(row) for name, rows in data["objects"].items() for row in rows]
    return Snapshot(
        str(data["database"]), int(data["server_version"]), MappingProxyType({found.key: found for found in objects})
    )
