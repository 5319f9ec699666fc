"""Foreign data wrappers, servers and user mappings."""

from typing import Any

from schema.drift.comparators.base import Comparator
from schema.pg.catalog import Kind


class ForeignComparator(Comparator):
    """Reported; repaired by hand, since options may hold secrets and addresses."""

    kinds = (Kind.FOREIGN_DATA_WRAPPER, Kind.FOREIGN_SERVER, Kind.USER_MAPPING)

    def summary(self, found: Any) -> str | None:
        """Kind and name."""
        return f"{found.kind.upper()} {found.identity}"
