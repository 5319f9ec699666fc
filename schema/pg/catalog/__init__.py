"""The catalogs of a database as frozen values: what PostgreSQL itself prints, one module per kind of object."""

from schema.pg.catalog.base import CatalogObject, Key, Kind
from schema.pg.catalog.snapshot import CatalogChangedError, Snapshot, read_snapshot

__all__ = ["CatalogChangedError", "CatalogObject", "Key", "Kind", "Snapshot", "read_snapshot"]
