"""Tables: plain, partitioned, partitions and foreign ones."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source, in_schema
from schema.pg.catalog.fragments import USER_SCHEMA, acl, comment, not_extension, options, tablespace


@dataclass(frozen=True, slots=True)
class Table(CatalogObject):
    """A table without its columns, which are objects of their own."""

    kind: ClassVar = Kind.TABLE
    keys: ClassVar = frozenset({"schema", "name"})

    schema: str
    name: str
    sort: str
    """`table`, `partitioned table` or `foreign table`."""
    persistence: str
    access_method: str | None
    tablespace: str | None
    options: tuple[str, ...]
    toast_options: tuple[str, ...]
    of_type: str | None
    inherits: tuple[str, ...]
    partition_key: str | None
    partition_bound: str | None
    row_security: bool
    forced_row_security: bool
    replica_identity: str
    foreign_server: str | None
    foreign_options: tuple[str, ...]
    owner: str
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Schema and name."""
        return in_schema(self.schema, self.name)

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its schema."""
        return (Key(Kind.SCHEMA, self.schema),)


def _tables(version: int) -> str:
    # The replica identity's index is told by the index itself. A partition's access method and tablespace are its own.
    return f"""
        SELECT quote_ident(n.nspname), quote_ident(c.relname),
            CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' ELSE 'foreign table' END,
            CASE c.relpersistence WHEN 'p' THEN 'permanent' WHEN 'u' THEN 'unlogged' ELSE 'temporary' END,
            (SELECT quote_ident(m.amname) FROM pg_am AS m WHERE m.oid = c.relam),
            {tablespace("c.reltablespace")}, {options("c.reloptions")},
            CASE c.reltoastrelid WHEN 0 THEN '{{}}'
                ELSE (SELECT {options("t.reloptions")} FROM pg_class AS t WHERE t.oid = c.reltoastrelid) END,
            CASE c.reloftype WHEN 0 THEN NULL ELSE c.reloftype::regtype::text END,
            ARRAY(SELECT concat(i.inhparent::regclass, CASE WHEN i.inhdetachpending THEN ' (detach pending)' END)
                  FROM pg_inherits AS i WHERE i.inhrelid = c.oid ORDER BY i.inhseqno),
            CASE c.relkind WHEN 'p' THEN pg_get_partkeydef(c.oid) END,
            pg_get_expr(c.relpartbound, c.oid),
            c.relrowsecurity, c.relforcerowsecurity,
            CASE c.relreplident WHEN 'd' THEN 'default' WHEN 'n' THEN 'nothing' WHEN 'f' THEN 'full' ELSE 'index' END,
            quote_ident(s.srvname), {options("f.ftoptions")},
            c.relowner::regrole::text, {acl("c.relacl", "r", "c.relowner")}, {comment("pg_class", "c.oid")}
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            LEFT JOIN pg_foreign_table AS f ON f.ftrelid = c.oid
            LEFT JOIN pg_foreign_server AS s ON s.oid = f.ftserver
        WHERE c.relkind IN ('r', 'p', 'f') AND {USER_SCHEMA} AND {not_extension("pg_class", "c.oid")}"""


SOURCES = (Source(Table, _tables),)
