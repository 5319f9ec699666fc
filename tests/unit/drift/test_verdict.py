"""What differs between which sides decides who is told to do what."""

from schema.drift.difference import Change, Difference
from schema.drift.verdict import Pair, Side, Verdict, comparable, judge_pairs
from schema.pg.catalog import Key, Kind

MODELS_HISTORY: Pair = (Side.MODELS, Side.HISTORY)
HISTORY_LIVE: Pair = (Side.HISTORY, Side.LIVE)
CHECK = Key(Kind.CONSTRAINT, "public.t.ck")


def changed(wanted: str, found: str, equivalent: str | None = None) -> Difference:
    return Difference(*CHECK, Change.CHANGED, "definition", wanted, found, equivalent)


def verdicts(found: dict[Pair, list[Difference]]) -> list[tuple[Verdict, Pair]]:
    return [(each.verdict, each.pair) for each in judge_pairs(found, {})]


def test_a_wrong_revision() -> None:
    assert verdicts({MODELS_HISTORY: [changed("a", "b")], HISTORY_LIVE: []}) == [(Verdict.REVISION, MODELS_HISTORY)]


def test_a_change_by_hand_names_the_last_revision() -> None:
    (finding,) = judge_pairs({MODELS_HISTORY: [], HISTORY_LIVE: [changed("a", "b")]}, {CHECK: "1a6d9e3f5c28"})
    assert (finding.verdict, finding.revision) == (Verdict.BY_HAND, "1a6d9e3f5c28")


def test_all_three_differ() -> None:
    found = {MODELS_HISTORY: [changed("a", "b")], HISTORY_LIVE: [changed("b", "c")]}
    assert verdicts(found) == [(Verdict.BOTH, MODELS_HISTORY), (Verdict.BOTH, HISTORY_LIVE)]


def test_nobody_is_told_to_spoil_a_database_that_is_as_the_models_want() -> None:
    found = {MODELS_HISTORY: [changed("a", "b")], HISTORY_LIVE: [changed("b", "a")]}
    assert verdicts(found) == [(Verdict.HISTORY_ALONE, MODELS_HISTORY)]
    lacking = Difference(*CHECK, Change.MISSING, wanted="a")
    extra = Difference(*CHECK, Change.EXTRA, found="a")
    assert verdicts({MODELS_HISTORY: [lacking], HISTORY_LIVE: [extra]}) == [(Verdict.HISTORY_ALONE, MODELS_HISTORY)]


def test_what_means_the_same_makes_no_verdict_worse() -> None:
    found = {MODELS_HISTORY: [changed("a", "b", "the same")], HISTORY_LIVE: [changed("b", "c")]}
    assert (Verdict.BY_HAND, HISTORY_LIVE) in verdicts(found)


def test_without_the_history_only_models_and_live_are_told() -> None:
    assert verdicts({(Side.MODELS, Side.LIVE): [changed("a", "b")]}) == [
        (Verdict.MODELS_LIVE, (Side.MODELS, Side.LIVE))
    ]


def test_what_two_majors_print_differently_is_not_comparable() -> None:
    def of(kind: Kind, attribute: str, wanted: str | None, found: str | None) -> bool:
        return comparable(Difference(kind, "x", Change.CHANGED, attribute, wanted, found))

    assert not of(Kind.COLUMN, "not null constraint", "a_not_null", None)
    assert not of(Kind.VIEW, "definition", "a", "b")
    assert not of(Kind.TABLE, "privileges", "MAINTAIN TO its owner", None)
    assert of(Kind.TABLE, "privileges", "MAINTAIN TO its owner\nSELECT TO app", None)
    assert of(Kind.CONSTRAINT, "definition", "a", "b")
