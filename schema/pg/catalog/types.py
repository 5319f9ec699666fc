"""Enums, domains, and composite, range and base types."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source, in_schema
from schema.pg.catalog.fragments import USER_SCHEMA, acl, comment, not_extension

_OWNED = f"t.typowner::regrole::text, {acl('t.typacl', 'T', 't.typowner')}, {comment('pg_type', 't.oid')}"


@dataclass(frozen=True, slots=True)
class _Type(CatalogObject):
    keys: ClassVar = frozenset({"schema", "name"})

    schema: str
    name: str

    @property
    def identity(self) -> str:
        """Schema and name."""
        return in_schema(self.schema, self.name)

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its schema."""
        return (Key(Kind.SCHEMA, self.schema),)


@dataclass(frozen=True, slots=True)
class Enum(_Type):
    """An enum and its labels, in order."""

    kind: ClassVar = Kind.ENUM

    labels: tuple[str, ...]
    owner: str
    privileges: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True, slots=True)
class Domain(_Type):
    """A domain and its constraints."""

    kind: ClassVar = Kind.DOMAIN

    type: str
    not_null: bool
    default: str | None
    collation: str | None
    constraints: tuple[str, ...]
    """Name and definition of each CHECK, by name."""
    constraint_comments: tuple[str, ...]
    owner: str
    privileges: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True, slots=True)
class OtherType(_Type):
    """A composite, range or base type, or a shell."""

    kind: ClassVar = Kind.TYPE

    sort: str
    definition: tuple[str, ...]
    """Attributes of a composite type, else what the type is made of."""
    owner: str
    privileges: tuple[str, ...]
    comment: str | None


def _enums(version: int) -> str:
    return f"""
        SELECT quote_ident(n.nspname), quote_ident(t.typname),
            ARRAY(SELECT e.enumlabel::text FROM pg_enum AS e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
            {_OWNED}
        FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
        WHERE t.typtype = 'e' AND {USER_SCHEMA} AND {not_extension("pg_type", "t.oid")}"""


def _domains(version: int) -> str:
    checks = "pg_constraint AS k WHERE k.contypid = t.oid AND k.contype = 'c' ORDER BY k.conname"
    return f"""
        SELECT quote_ident(n.nspname), quote_ident(t.typname), format_type(t.typbasetype, t.typtypmod), t.typnotnull,
            pg_get_expr(t.typdefaultbin, 0),
            CASE WHEN t.typcollation <> b.typcollation THEN t.typcollation::regcollation::text END,
            ARRAY(SELECT format('%I %s', k.conname, pg_get_constraintdef(k.oid)) FROM {checks}),
            ARRAY(SELECT format('%I: %s', k.conname, note.description) FROM pg_constraint AS k
                JOIN pg_description AS note ON note.classoid = 'pg_constraint'::regclass AND note.objoid = k.oid
                WHERE k.contypid = t.oid ORDER BY k.conname),
            {_OWNED}
        FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace JOIN pg_type AS b ON b.oid = t.typbasetype
        WHERE t.typtype = 'd' AND {USER_SCHEMA} AND {not_extension("pg_type", "t.oid")}"""


def _others(version: int) -> str:
    # Row types of tables, arrays and multiranges come with what they belong to.
    return f"""
        SELECT quote_ident(n.nspname), quote_ident(t.typname),
            CASE t.typtype WHEN 'c' THEN 'composite' WHEN 'r' THEN 'range' WHEN 'p' THEN 'shell' ELSE 'base' END,
            CASE t.typtype
                WHEN 'c' THEN ARRAY(
                    SELECT concat(quote_ident(a.attname), ' ', format_type(a.atttypid, a.atttypmod),
                        CASE WHEN a.attcollation <> b.typcollation THEN ' COLLATE ' || a.attcollation::regcollation END,
                        ' -- ' || {comment("pg_class", "t.typrelid", "a.attnum")})
                    FROM pg_attribute AS a JOIN pg_type AS b ON b.oid = a.atttypid
                    WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
                WHEN 'r' THEN (SELECT ARRAY[
                        'subtype ' || r.rngsubtype::regtype, 'subtype diff ' || r.rngsubdiff::regproc,
                        'canonical ' || r.rngcanonical::regproc, 'collation ' || r.rngcollation::regcollation,
                        'multirange ' || r.rngmultitypid::regtype,
                        'operator class ' || (SELECT opcname FROM pg_opclass WHERE oid = r.rngsubopc)]
                    FROM pg_range AS r WHERE r.rngtypid = t.oid)
                ELSE ARRAY(SELECT item FROM unnest(ARRAY[
                    concat('input ', t.typinput), concat('output ', t.typoutput), concat('receive ', t.typreceive),
                    concat('send ', t.typsend), concat('modifier input ', t.typmodin),
                    concat('modifier output ', t.typmodout), concat('analyze ', t.typanalyze),
                    concat('subscript ', t.typsubscript), concat('length ', t.typlen), concat('by value ', t.typbyval),
                    concat('alignment ', t.typalign), concat('storage ', t.typstorage),
                    concat('category ', t.typcategory), concat('preferred ', t.typispreferred),
                    concat('delimiter ', t.typdelim), 'default ' || t.typdefault
                ]) AS item WHERE item IS NOT NULL) END,
            {_OWNED}
        FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace LEFT JOIN pg_class AS c ON c.oid = t.typrelid
        WHERE (t.typtype IN ('r', 'p') OR t.typtype = 'b' AND NOT EXISTS (
                SELECT FROM pg_type AS element WHERE element.typarray = t.oid)
            OR t.typtype = 'c' AND c.relkind = 'c') AND {USER_SCHEMA} AND {not_extension("pg_type", "t.oid")}"""


SOURCES = (Source(Enum, _enums), Source(Domain, _domains), Source(OtherType, _others))
