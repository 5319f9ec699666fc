"""Schemas."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Kind, Source
from schema.pg.catalog.fragments import USER_SCHEMA, acl, comment, not_extension


@dataclass(frozen=True, slots=True)
class Schema(CatalogObject):
    """A schema, empty or not."""

    kind: ClassVar = Kind.SCHEMA
    keys: ClassVar = frozenset({"name"})

    name: str
    owner: str
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name


def _schemas(version: int) -> str:
    return f"""
        SELECT quote_ident(n.nspname), n.nspowner::regrole::text, {acl("n.nspacl", "n", "n.nspowner")},
            {comment("pg_namespace", "n.oid")}
        FROM pg_namespace AS n WHERE {USER_SCHEMA} AND {not_extension("pg_namespace", "n.oid")}"""


SOURCES = (Source(Schema, _schemas),)
