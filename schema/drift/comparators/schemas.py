"""Schemas."""

from typing import Any

from schema.drift.comparators.base import Comparator
from schema.pg.catalog import Kind


class SchemaComparator(Comparator):
    """Schemas; what is in one that the other side lacks is not told again."""

    kinds = (Kind.SCHEMA,)
    noun = "SCHEMA"

    def summary(self, found: Any) -> str | None:
        """Its name."""
        return f"SCHEMA {found.name}"

    def created(self, wanted: Any) -> list[str]:
        """CREATE SCHEMA."""
        return [f"CREATE SCHEMA {wanted.name}"]
