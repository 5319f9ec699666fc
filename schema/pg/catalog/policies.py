"""Row-level security policies."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source
from schema.pg.catalog.fragments import USER_SCHEMA, comment, not_extension


@dataclass(frozen=True, slots=True)
class Policy(CatalogObject):
    """A policy of a table."""

    kind: ClassVar = Kind.POLICY
    keys: ClassVar = frozenset({"table", "name"})

    table: str
    name: str
    permissive: bool
    command: str
    roles: tuple[str, ...]
    using: str | None
    with_check: str | None
    comment: str | None

    @property
    def identity(self) -> str:
        """Table and name."""
        return f"{self.table}.{self.name}"

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its table."""
        return (Key(Kind.TABLE, self.table),)


def _policies(version: int) -> str:
    return f"""
        SELECT format('%I.%I', n.nspname, c.relname), quote_ident(p.polname), p.polpermissive,
            CASE p.polcmd WHEN '*' THEN 'ALL' WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                ELSE 'DELETE' END,
            ARRAY(SELECT CASE role WHEN 0 THEN 'PUBLIC' ELSE role::regrole::text END COLLATE "C"
                  FROM unnest(p.polroles) AS role ORDER BY 1),
            pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid), {comment("pg_policy", "p.oid")}
        FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE {USER_SCHEMA} AND {not_extension("pg_class", "c.oid")}"""


SOURCES = (Source(Policy, _policies),)
