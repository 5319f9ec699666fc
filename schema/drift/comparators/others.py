"""Objects of rare kinds, collations, publications and subscriptions: reported, repaired by hand."""

from typing import Any

from schema.drift.comparators.base import Comparator
from schema.pg.catalog import Kind


class OtherComparator(Comparator):
    """Compares what the catalogs say, suggests nothing."""

    kinds = (Kind.OTHER, Kind.COLLATION, Kind.PUBLICATION, Kind.SUBSCRIPTION)

    def summary(self, found: Any) -> str | None:
        """The definition where there is one."""
        text: str = getattr(found, "definition", None) or found.identity
        return text
