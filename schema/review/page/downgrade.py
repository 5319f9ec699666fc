"""What became of a revision's downgrade, and of running it twice, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schema.review.finding import Outcome
from schema.review.review import Reviewed


@dataclass(frozen=True)
class Deed:
    """One thing that was tried, and how it went."""

    good: bool
    text: str


def deeds(reviewed: Reviewed) -> list[Deed]:
    """Down, up again, and again after a failure; or why none of it was tried."""
    trace = reviewed.trace
    if reviewed.outcome is not None:
        return list(_deeds(reviewed.outcome))
    if trace.error is not None:
        return [Deed(False, "Not taken down: its upgrade did not come to its end.")]
    if len(trace.parents) > 1:
        return [Deed(True, "A merge: there is nothing to take down.")]
    if trace.refused is not None:
        return [Deed(False, "Not taken down: its upgrade does not work with the rows of the scratch database.")]
    return [Deed(False, "Not taken down in this review.")]


def _deeds(outcome: Outcome) -> Iterator[Deed]:
    if outcome.downgrade_error is not None:
        told = "The downgrade refuses" if outcome.refuses else "The downgrade fails"
        yield Deed(outcome.refuses, f"{told}: {outcome.downgrade_error}")
    else:
        told = _differing("The downgrade ends in another catalog:", outcome.leftovers)
        yield Deed(not outcome.leftovers, told or "The downgrade works.")
        if outcome.second_error is not None:
            yield Deed(False, f"The upgrade fails when it is run again: {outcome.second_error}")
        else:
            told = _differing("Up, down and up ends in another catalog:", outcome.differences)
            yield Deed(not outcome.differences, told or "Up, down and up ends in the same catalog.")
    if outcome.lost:
        tables = dict.fromkeys(name.rpartition(".")[0] for name, _ in outcome.lost)
        columns = f"{len(outcome.lost)} column{'s' if len(outcome.lost) > 1 else ''}"
        yield Deed(False, f"The downgrade loses what {columns} of {', '.join(tables)} held.")
    for statement, why in outcome.rerun:
        yield Deed(False, f"After a failure at statement {statement} it cannot be run again: {why}")
    for index in outcome.invalid_kept:
        yield Deed(False, f"An INVALID {index} that a broken attempt left is taken for done.")


def _differing(beginning: str, differences: Sequence[str]) -> str:
    return f"{beginning} {'; '.join(differences)}." if differences else ""
