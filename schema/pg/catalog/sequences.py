"""Sequences, but for those of identity columns, which the column tells."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source, in_schema
from schema.pg.catalog.fragments import USER_SCHEMA, acl, comment, not_extension, sequence_bounds


@dataclass(frozen=True, slots=True)
class Sequence(CatalogObject):
    """A sequence; its position is data and not looked at."""

    kind: ClassVar = Kind.SEQUENCE
    keys: ClassVar = frozenset({"schema", "name"})

    schema: str
    name: str
    persistence: str
    type: str
    start: int
    increment: int
    bounds: str
    """MINVALUE and MAXVALUE where they are not what type and direction give."""
    cache: int
    cycle: bool
    owned_by: str | None
    owner: str
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Schema and name."""
        return in_schema(self.schema, self.name)

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its schema, and the column that owns it."""
        if self.owned_by is None:
            return (Key(Kind.SCHEMA, self.schema),)
        return (Key(Kind.SCHEMA, self.schema), Key(Kind.COLUMN, self.owned_by))


def _sequences(version: int) -> str:
    return f"""
        SELECT quote_ident(n.nspname), quote_ident(c.relname),
            CASE c.relpersistence WHEN 'p' THEN 'permanent' WHEN 'u' THEN 'unlogged' ELSE 'temporary' END,
            q.seqtypid::regtype::text, q.seqstart, q.seqincrement, {sequence_bounds("q")}, q.seqcache, q.seqcycle,
            CASE WHEN a.attname IS NOT NULL THEN format('%s.%I', a.attrelid::regclass, a.attname) END,
            c.relowner::regrole::text, {acl("c.relacl", "s", "c.relowner")}, {comment("pg_class", "c.oid")}
        FROM pg_sequence AS q JOIN pg_class AS c ON c.oid = q.seqrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
            LEFT JOIN pg_depend AS dep ON dep.classid = 'pg_class'::regclass AND dep.objid = c.oid
                AND dep.refclassid = 'pg_class'::regclass AND dep.refobjsubid > 0 AND dep.deptype IN ('a', 'i')
            LEFT JOIN pg_attribute AS a ON a.attrelid = dep.refobjid AND a.attnum = dep.refobjsubid
        WHERE dep.deptype IS DISTINCT FROM 'i' AND {USER_SCHEMA} AND {not_extension("pg_class", "c.oid")}"""


SOURCES = (Source(Sequence, _sequences),)
