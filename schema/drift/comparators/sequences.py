"""Sequences."""

from typing import Any

from schema.drift.comparators.base import Comparator
from schema.pg.catalog import Kind
from schema.pg.catalog.sequences import Sequence


class SequenceComparator(Comparator):
    """Sequences. Those that a column owns were named by the server, so another name is no difference."""

    kinds = (Kind.SEQUENCE,)
    noun = "SEQUENCE"

    def summary(self, found: Any) -> str | None:
        """Its options."""
        return f"SEQUENCE {_options(found)}"

    def same_name(self, one: Sequence, other: Sequence) -> str | None:
        """A column's own sequence may keep the name that it was made with."""
        if one.owned_by is not None and other.owned_by is not None:
            return "the sequence of a column may have any name"
        return None

    def created(self, wanted: Sequence) -> list[str]:
        """CREATE SEQUENCE."""
        owned = f" OWNED BY {wanted.owned_by}" if wanted.owned_by else ""
        return [f"CREATE SEQUENCE {wanted.identity} {_options(wanted)}{owned}"]

    def altered(self, wanted: Sequence, found: Sequence, attribute: str) -> list[str]:
        """ALTER SEQUENCE."""
        if attribute in {"type", "start", "increment", "bounds", "cache", "cycle"}:
            return [f"ALTER SEQUENCE {wanted.identity} {_options(wanted)}"]
        if attribute == "owned by":
            return [f"ALTER SEQUENCE {wanted.identity} OWNED BY {wanted.owned_by or 'NONE'}"]
        return super().altered(wanted, found, attribute)


def _options(sequence: Sequence) -> str:
    cycle = "CYCLE" if sequence.cycle else "NO CYCLE"
    bounds = "".join(f" NO {word}" for word in ("MINVALUE", "MAXVALUE") if f" {word} " not in f"{sequence.bounds} ")
    return (
        f"AS {sequence.type} START {sequence.start} INCREMENT {sequence.increment}{sequence.bounds}{bounds}"
        f" CACHE {sequence.cache} {cycle}"
    )
