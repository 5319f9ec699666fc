"""What kind of cluster is seeded."""

from enum import StrEnum


class Profile(StrEnum):
    """Whether the seeded history has mistakes in it."""

    ERAS = "eras"
    """With the bad entries and divergent replicas of real clusters."""
    CLEAN = "clean"
    """The same shapes, and nothing that a backfill would reject or report."""
