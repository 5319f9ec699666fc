"""Publications and subscriptions."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Kind, Source
from schema.pg.catalog.fragments import comment, not_extension


@dataclass(frozen=True, slots=True)
class Publication(CatalogObject):
    """A publication, its tables with columns and row filters, and its schemas."""

    kind: ClassVar = Kind.PUBLICATION
    keys: ClassVar = frozenset({"name"})

    name: str
    all_tables: bool
    operations: str
    via_root: bool
    generated_columns: str
    tables: tuple[str, ...]
    schemas: tuple[str, ...]
    owner: str
    comment: str | None

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Subscription(CatalogObject):
    """A subscription, without its connection string: that is a secret, and where the publisher is."""

    kind: ClassVar = Kind.SUBSCRIPTION
    keys: ClassVar = frozenset({"name"})

    name: str
    enabled: bool
    publications: tuple[str, ...]
    slot: str | None
    owner: str

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name


def _publications(version: int) -> str:
    generated = "p.pubgencols::text" if version >= 180000 else "'n'"
    return f"""
        SELECT quote_ident(p.pubname), p.puballtables, concat_ws(', ', CASE WHEN p.pubinsert THEN 'insert' END,
                CASE WHEN p.pubupdate THEN 'update' END, CASE WHEN p.pubdelete THEN 'delete' END,
                CASE WHEN p.pubtruncate THEN 'truncate' END),
            p.pubviaroot, {generated},
            ARRAY(SELECT concat(r.prrelid::regclass, ' (' || (
                        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute AS a
                        WHERE a.attrelid = r.prrelid AND a.attnum = ANY (r.prattrs::int2[])) || ')',
                    ' WHERE ' || pg_get_expr(r.prqual, r.prrelid)) COLLATE "C"
                FROM pg_publication_rel AS r WHERE r.prpubid = p.oid ORDER BY 1),
            ARRAY(SELECT quote_ident(s.nspname) COLLATE "C" FROM pg_publication_namespace AS r
                JOIN pg_namespace AS s ON s.oid = r.pnnspid WHERE r.pnpubid = p.oid ORDER BY 1),
            p.pubowner::regrole::text, {comment("pg_publication", "p.oid")}
        FROM pg_publication AS p WHERE {not_extension("pg_publication", "p.oid")}"""


def _subscriptions(version: int) -> str:
    return """
        SELECT quote_ident(s.subname), s.subenabled, s.subpublications, s.subslotname::text, s.subowner::regrole::text
        FROM pg_subscription AS s WHERE s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"""


SOURCES = (Source(Publication, _publications), Source(Subscription, _subscriptions))
