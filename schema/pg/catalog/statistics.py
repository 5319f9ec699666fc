"""Extended statistics."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source, in_schema
from schema.pg.catalog.fragments import USER_SCHEMA, comment, not_extension


@dataclass(frozen=True, slots=True)
class Statistics(CatalogObject):
    """A CREATE STATISTICS object."""

    kind: ClassVar = Kind.STATISTICS
    keys: ClassVar = frozenset({"schema", "name", "table"})

    schema: str
    name: str
    table: str
    definition: str
    target: int | None
    owner: str
    comment: str | None

    @property
    def identity(self) -> str:
        """Schema and name."""
        return in_schema(self.schema, self.name)

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its table."""
        return (Key(Kind.TABLE, self.table),)


def _statistics(version: int) -> str:
    return f"""
        SELECT quote_ident(n.nspname), quote_ident(s.stxname), s.stxrelid::regclass::text,
            pg_get_statisticsobjdef(s.oid), nullif(s.stxstattarget, -1), s.stxowner::regrole::text,
            {comment("pg_statistic_ext", "s.oid")}
        FROM pg_statistic_ext AS s JOIN pg_namespace AS n ON n.oid = s.stxnamespace
        WHERE {USER_SCHEMA} AND {not_extension("pg_statistic_ext", "s.oid")}"""


SOURCES = (Source(Statistics, _statistics),)
