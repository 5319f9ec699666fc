"""Three sides, compared in pairs, and what that says about each object."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from schema.drift.difference import Change, Difference
from schema.pg.catalog import Key, Kind


class Side(StrEnum):
    """Where a schema comes from."""

    MODELS = "models"
    HISTORY = "history"
    LIVE = "live"


Pair = tuple[Side, Side]
"""The first is what is wanted, the second what was found."""


class Verdict(StrEnum):
    """What is wrong with an object."""

    REVISION = "models ≠ history"
    BY_HAND = "history ≠ live"
    HISTORY_ALONE = "models = live ≠ history"
    BOTH = "models ≠ history ≠ live"
    MODELS_LIVE = "models ≠ live"

    @property
    def meaning(self) -> str:
        """In a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Verdict.REVISION: "a revision is missing, or says something else than the models",
    Verdict.BY_HAND: "somebody changed the database by hand, or a revision was edited after it ran",
    Verdict.HISTORY_ALONE: "the database has what the models say, but the history does not make it",
    Verdict.BOTH: "a revision is missing or wrong, and the database was changed besides",
    Verdict.MODELS_LIVE: "the database is not what the models say",
}


@dataclass(frozen=True)
class Finding:
    """A difference, between which sides, and what it means for its object."""

    verdict: Verdict
    pair: Pair
    difference: Difference
    revision: str | None
    """The revision that last touched the object, when that is known."""


def judge_pairs(found: Mapping[Pair, Iterable[Difference]], touched: Mapping[Key, str]) -> list[Finding]:
    """Give every difference its verdict: by the pairs in which its object differs for real."""
    found = {pair: list(differences) for pair, differences in found.items()}
    real = {pair: {each.key for each in differences if each.equivalent is None} for pair, differences in found.items()}
    mended = _mended(found)
    findings = []
    for pair, differences in found.items():
        for each in differences:
            if each.key in mended and pair == _HISTORY_LIVE and each.equivalent is None:
                continue
            pairs = {other for other, keys in real.items() if each.key in keys} or {pair}
            verdict = Verdict.HISTORY_ALONE if each.key in mended else _verdict(pairs)
            findings.append(Finding(verdict, pair, each, touched.get(each.key)))
    order = {verdict: rank for rank, verdict in enumerate(Verdict)}
    return sorted(findings, key=lambda each: order[each.verdict])


_MODELS_HISTORY: Pair = (Side.MODELS, Side.HISTORY)
_HISTORY_LIVE: Pair = (Side.HISTORY, Side.LIVE)


def _mended(found: Mapping[Pair, Iterable[Difference]]) -> set[Key]:
    """Objects that the live database has as the models want them, and only the history has not.

    They are told once, and nobody is told to make the live database like the history.
    """
    texts: dict[Pair, dict[Key, set[tuple[str | None, str | None, str | None]]]] = {}
    for pair, differences in found.items():
        for each in differences:
            if each.equivalent is None:
                there, back = each.wanted, each.found
                texts.setdefault(pair, {}).setdefault(each.key, set()).add(
                    (each.attribute, there, back) if pair == _MODELS_HISTORY else (each.attribute, back, there)
                )
    ours, theirs = texts.get(_MODELS_HISTORY, {}), texts.get(_HISTORY_LIVE, {})
    return {key for key, differing in ours.items() if theirs.get(key) == differing}


def _verdict(pairs: set[Pair]) -> Verdict:
    if any(Side.HISTORY not in pair for pair in pairs):
        return Verdict.MODELS_LIVE
    if len(pairs) == 2:
        return Verdict.BOTH
    return Verdict.REVISION if Side.MODELS in next(iter(pairs)) else Verdict.BY_HAND


def comparable(difference: Difference) -> bool:
    """Whether a difference between servers of two majors can be taken for one of the schema."""
    if difference.kind in {Kind.DATABASE, Kind.EXTENSION, Kind.SETTING}:
        return False
    if difference.attribute in {"not null constraint", "not null state", "generated columns"}:
        return False
    if difference.kind in {Kind.VIEW, Kind.RULE} and difference.attribute == "definition":
        return False
    if difference.attribute is not None and difference.attribute.endswith("privileges"):
        texts = (difference.wanted, difference.found)
        return any(line and not line.startswith("MAINTAIN ") for text in texts for line in (text or "").split("\n"))
    return not (difference.kind == Kind.DEFAULT_PRIVILEGES and difference.change is Change.CHANGED)
