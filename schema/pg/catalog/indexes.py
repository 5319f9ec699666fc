"""Indexes of tables and materialised views."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source, in_schema
from schema.pg.catalog.fragments import USER_SCHEMA, comment, not_extension, options, tablespace


@dataclass(frozen=True, slots=True)
class Index(CatalogObject):
    """An index. One that a constraint owns has no definition here: the constraint tells it."""

    kind: ClassVar = Kind.INDEX
    keys: ClassVar = frozenset({"of_view", "schema", "name", "parent"})

    of_view: bool
    schema: str
    name: str
    table: str
    parent: str | None
    """The partitioned index that this is a part of; its own name is then the server's choice, and not compared."""
    constraint: str | None
    definition: str | None
    """As PostgreSQL prints it, without the storage options."""
    valid: bool
    ready: bool
    live: bool
    clustered: bool
    replica_identity: bool
    options: tuple[str, ...]
    tablespace: str | None
    statistics_targets: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Schema and name; for a part of a partitioned index that index and the partition."""
        return in_schema(self.schema, self.name) if self.parent is None else f"{self.parent} of {self.table}"

    @property
    def containers(self) -> tuple[Key, ...]:
        """The table or view, and the partitioned index or the constraint that it belongs to."""
        table = Key(Kind.VIEW if self.of_view else Kind.TABLE, self.table)
        if self.parent is not None:
            return (table, Key(Kind.INDEX, self.parent))
        if self.constraint is not None:
            return (table, Key(Kind.CONSTRAINT, f"{self.table}.{self.constraint}"))
        return (table,)


def _indexes(version: int) -> str:
    # The options are compared on their own, so they are cut out of the definition, spelt as the server spells them.
    shown = """(SELECT string_agg(quote_ident(split_part(item, '=', 1)) || '=' ||
        CASE WHEN quote_ident(substr(item, strpos(item, '=') + 1)) = substr(item, strpos(item, '=') + 1)
            THEN substr(item, strpos(item, '=') + 1) ELSE quote_literal(substr(item, strpos(item, '=') + 1)) END, ', ')
        FROM unnest(c.reloptions) AS item)"""
    return f"""
        SELECT r.relkind = 'm', quote_ident(n.nspname), quote_ident(c.relname), format('%I.%I', n.nspname, r.relname),
            p.inhparent::regclass::text, quote_ident(k.conname),
            CASE WHEN k.oid IS NOT NULL OR p.inhparent IS NOT NULL THEN NULL
                WHEN c.reloptions IS NULL THEN pg_get_indexdef(c.oid)
                ELSE replace(pg_get_indexdef(c.oid), ' WITH (' || {shown} || ')', '') END,
            i.indisvalid, i.indisready, i.indislive, i.indisclustered, i.indisreplident,
            {options("c.reloptions")}, {tablespace("c.reltablespace")},
            CASE WHEN i.indexprs IS NULL THEN '{{}}' ELSE ARRAY(
                SELECT format('%s: %s', a.attnum, a.attstattarget) FROM pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attstattarget >= 0 ORDER BY a.attnum) END,
            {comment("pg_class", "c.oid")}
        FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_class AS r ON r.oid = i.indrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            LEFT JOIN pg_inherits AS p ON p.inhrelid = c.oid
            LEFT JOIN pg_constraint AS k ON k.conindid = c.oid AND k.conrelid = r.oid AND k.contype IN ('p', 'u', 'x')
        WHERE {USER_SCHEMA} AND {not_extension("pg_class", "r.oid")} AND {not_extension("pg_class", "c.oid")}"""


SOURCES = (Source(Index, _indexes),)
