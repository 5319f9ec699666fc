"""Columns of tables, and those of views that carry something of their own."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source
from schema.pg.catalog.fragments import USER_SCHEMA, acl, column_acl, comment, not_extension, options, sequence_bounds


@dataclass(frozen=True, slots=True)
class Column(CatalogObject):
    """A column. Its place is compared per table, so that one more column does not move all that follow."""

    kind: ClassVar = Kind.COLUMN
    keys: ClassVar = frozenset({"of_view", "table", "name", "position", "default_is_own_sequence"})

    of_view: bool
    table: str
    name: str
    position: int
    """Rank among the columns that are not dropped, from 1."""
    type: str | None
    not_null: bool
    not_null_constraint: str | None
    """Name, from PostgreSQL 18 on; NULL when it is inherited."""
    not_null_state: str | None
    """`NOT VALID` and `NO INHERIT`, from PostgreSQL 18 on."""
    default: str | None
    default_is_own_sequence: bool
    """The default is nextval() of a sequence that belongs to this column: serial."""
    generated: str | None
    """Kind and expression."""
    identity_options: str | None
    identity_sequence: str | None
    identity_privileges: tuple[str, ...]
    identity_comment: str | None
    collation: str | None
    """Only where it is not the type's own."""
    storage: str | None
    """Only where it is not the type's own."""
    compression: str | None
    statistics_target: int | None
    options: tuple[str, ...]
    foreign_options: tuple[str, ...]
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Table and name."""
        return f"{self.table}.{self.name}"

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its table or view."""
        return (Key(Kind.VIEW if self.of_view else Kind.TABLE, self.table),)


def _columns(version: int) -> str:
    if version >= 180000:
        not_null = """
            LEFT JOIN pg_constraint AS nn
                ON nn.conrelid = a.attrelid AND nn.contype = 'n' AND nn.conkey[1] = a.attnum"""
        name = "CASE WHEN nn.coninhcount = 0 THEN quote_ident(nn.conname) END"
        no_inherit = "CASE WHEN nn.connoinherit THEN ' NO INHERIT' END"
        state = f"concat({no_inherit}, CASE WHEN NOT nn.convalidated THEN ' NOT VALID' END)"
    else:
        not_null, name, state = "", "NULL", "NULL"
    storage = (
        "CASE a.attstorage WHEN 'p' THEN 'plain' WHEN 'e' THEN 'external' WHEN 'm' THEN 'main' ELSE 'extended' END"
    )
    own_default = """
        SELECT FROM pg_depend AS dep WHERE dep.classid = 'pg_class'::regclass AND dep.refclassid = 'pg_class'::regclass
            AND dep.refobjid = a.attrelid AND dep.refobjsubid = a.attnum AND dep.deptype = 'a'
            AND d.expression = format('nextval(%L::regclass)', dep.objid::regclass)"""
    identity = f"""
        SELECT concat(CASE WHEN q.seqtypid <> a.atttypid THEN 'AS ' || q.seqtypid::regtype || ' ' END,
                'START ', q.seqstart, ' INCREMENT ', q.seqincrement, {sequence_bounds("q")},
                CASE WHEN q.seqcache <> 1 THEN ' CACHE ' || q.seqcache END, CASE WHEN q.seqcycle THEN ' CYCLE' END,
                CASE s.relpersistence WHEN 'u' THEN ' UNLOGGED' END) AS options,
            s.oid::regclass::text AS name, {acl("s.relacl", "s", "s.relowner")} AS acl,
            {comment("pg_class", "s.oid")} AS note
        FROM pg_depend AS dep JOIN pg_class AS s ON s.oid = dep.objid JOIN pg_sequence AS q ON q.seqrelid = s.oid
        WHERE a.attidentity <> '' AND dep.classid = 'pg_class'::regclass AND dep.refclassid = 'pg_class'::regclass
            AND dep.refobjid = a.attrelid AND dep.refobjsubid = a.attnum AND dep.deptype = 'i'"""
    return f"""
        SELECT c.relkind IN ('v', 'm'), format('%I.%I', n.nspname, c.relname), quote_ident(a.attname),
            row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum),
            CASE WHEN c.relkind NOT IN ('v', 'm') THEN format_type(a.atttypid, a.atttypmod) END,
            a.attnotnull, {name}, {state},
            CASE a.attgenerated WHEN '' THEN d.expression END,
            d.expression IS NOT NULL AND EXISTS ({own_default}),
            CASE a.attgenerated WHEN 's' THEN 'STORED ' || d.expression WHEN 'v' THEN 'VIRTUAL ' || d.expression END,
            CASE a.attidentity WHEN 'a' THEN 'ALWAYS ' || i.options WHEN 'd' THEN 'BY DEFAULT ' || i.options END,
            i.name, coalesce(i.acl, '{{}}'), i.note,
            CASE WHEN c.relkind NOT IN ('v', 'm') AND a.attcollation <> t.typcollation
                THEN a.attcollation::regcollation::text END,
            CASE WHEN c.relkind <> 'v' AND a.attstorage <> t.typstorage THEN {storage} END,
            CASE a.attcompression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END,
            nullif(a.attstattarget, -1), {options("a.attoptions")}, {options("a.attfdwoptions")},
            {column_acl("a.attacl", "c.relowner")}, note.description
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
            JOIN pg_type AS t ON t.oid = a.atttypid
            LEFT JOIN pg_attrdef AS raw ON raw.adrelid = a.attrelid AND raw.adnum = a.attnum
            LEFT JOIN LATERAL (SELECT pg_get_expr(raw.adbin, raw.adrelid) AS expression OFFSET 0) AS d ON true
            LEFT JOIN LATERAL ({identity}) AS i ON true{not_null}
            LEFT JOIN pg_description AS note
                ON note.classoid = 'pg_class'::regclass AND note.objoid = a.attrelid AND note.objsubid = a.attnum
        WHERE a.attnum > 0 AND NOT a.attisdropped AND {USER_SCHEMA} AND {not_extension("pg_class", "c.oid")}
            AND (c.relkind IN ('r', 'p', 'f') OR c.relkind IN ('v', 'm') AND (
                a.attacl IS NOT NULL OR a.attoptions IS NOT NULL OR nullif(a.attstattarget, -1) IS NOT NULL
                OR raw.oid IS NOT NULL OR note.description IS NOT NULL OR a.attcompression <> ''
                OR c.relkind = 'm' AND a.attstorage <> t.typstorage))"""


SOURCES = (Source(Column, _columns),)
