"""What a comparison finds."""

from dataclasses import dataclass
from enum import StrEnum

from schema.pg.catalog import CatalogObject, Key, Kind


class Change(StrEnum):
    """How the second database differs from the first, which is taken as what is wanted."""

    MISSING = "missing"
    EXTRA = "extra"
    RENAMED = "renamed"
    CHANGED = "changed"


@dataclass(frozen=True)
class Difference:
    """One difference of one object."""

    kind: Kind
    identity: str
    """As the first database names it; as the second does when the first lacks it."""
    change: Change
    attribute: str | None = None
    """What of the object differs; None when the object as a whole does."""
    wanted: str | None = None
    """Text in the first database; None when there is none."""
    found: str | None = None
    """Text in the second."""
    equivalent: str | None = None
    """Why it means the same after all; None when it does not."""
    first: CatalogObject | None = None
    second: CatalogObject | None = None

    @property
    def key(self) -> Key:
        """The object."""
        return Key(self.kind, self.identity)

    @property
    def title(self) -> str:
        """What differs, in one line without the texts."""
        subject = f"{self.kind} {self.identity}"
        return f"{subject}: {self.attribute}" if self.attribute else f"{subject} {self.change}"


def shown(value: object) -> str | None:
    """An attribute's value as text; None when there is nothing to show."""
    match value:
        case None | () | "":
            return None
        case bool():
            return "yes" if value else "no"
        case tuple():
            return "\n".join(str(item) for item in value)
        case _:
            return str(value)
