"""Extensions."""

from schema.drift.comparators.base import Comparator, literal
from schema.pg.catalog import Kind
from schema.pg.catalog.extensions import Extension


class ExtensionComparator(Comparator):
    """Extensions, by version and schema."""

    kinds = (Kind.EXTENSION,)
    noun = "EXTENSION"

    def summary(self, found: Extension) -> str | None:
        """Name and version."""
        return f"EXTENSION {found.name} {found.version}"

    def created(self, wanted: Extension) -> list[str]:
        """CREATE EXTENSION."""
        return [f"CREATE EXTENSION {wanted.name} WITH SCHEMA {wanted.schema}"]

    def renamed(self, wanted: Extension, found: Extension) -> list[str]:
        """Extensions have no other name."""
        return []

    def altered(self, wanted: Extension, found: Extension, attribute: str) -> list[str]:
        """ALTER EXTENSION UPDATE or SET SCHEMA."""
        match attribute:
            case "version":
                return [f"ALTER EXTENSION {wanted.name} UPDATE TO {literal(wanted.version)}"]
            case "schema":
                return [f"ALTER EXTENSION {wanted.name} SET SCHEMA {wanted.schema}"]
        return []
