"""Extensions; what they brought is theirs and left out everywhere."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Kind, Source


@dataclass(frozen=True, slots=True)
class Extension(CatalogObject):
    """An installed extension."""

    kind: ClassVar = Kind.EXTENSION
    keys: ClassVar = frozenset({"name"})

    name: str
    version: str
    schema: str
    owner: str

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name


def _extensions(version: int) -> str:
    return """
        SELECT quote_ident(e.extname), e.extversion, quote_ident(n.nspname), e.extowner::regrole::text
        FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace"""


SOURCES = (Source(Extension, _extensions),)
