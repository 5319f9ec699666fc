"""From which statement to which a revision holds which lock."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from schema.review.estimate import estimated
from schema.review.facts import Lock, LockMode, Relation, Statement, Trace
from schema.review.finding import Size
from schema.review.report import bytes_text


@dataclass(frozen=True)
class Held:
    """A lock in its strongest mode, over statements of one transaction that follow each other."""

    relation: Relation
    table: str
    """The same, or of an index its table."""
    mode: LockMode
    first: Statement
    """The one that takes it."""
    last: Statement
    """The last that runs under it in this mode: it is made stronger by the next, or released by the commit."""

    def covers(self, number: int) -> bool:
        """Whether it is held while this statement runs."""
        return self.first.number <= number <= self.last.number


@dataclass(frozen=True)
class Bar:
    """A lock on the timeline; places in percent of its width."""

    name: str
    table: str
    mode: str
    strength: str
    """`exclusive` stops reads, `strong` stops writes, `weak` stops nothing that applications do."""
    words: str
    left: float
    width: float


@dataclass(frozen=True)
class Tick:
    """A statement on the timeline's scale."""

    at: float
    number: int
    named: bool
    commit: float | None
    """Where its transaction ends, when it is the last of one and not the last of all."""


def held(trace: Trace) -> list[Held]:
    """Every lock on relations that existed before, in the order they are taken, the strongest first.

    Of indexes only what blocks more than the lock on their table does.
    """
    found: list[Held] = []
    for number in dict.fromkeys(each.transaction for each in trace.statements):
        found += _of_transaction(trace, [each for each in trace.statements if each.transaction == number])
    found = [each for each in found if not each.relation.is_index or _tells_more(each, found)]
    return sorted(found, key=lambda each: (each.first.number, -each.mode, each.relation.name))


def _of_transaction(trace: Trace, statements: list[Statement]) -> list[Held]:
    ended: list[Held] = []
    current: dict[int, Held] = {}
    for before, statement in zip([None, *statements], statements, strict=False):
        for lock in strongest(statement):
            known = current.get(lock.relation.oid)
            if known is not None and known.mode >= lock.mode:
                continue
            if known is not None and before is not None:
                ended.append(replace(known, last=before))
            table = trace.relations.get(lock.relation.table or 0, lock.relation).name
            current[lock.relation.oid] = Held(lock.relation, table, lock.mode, statement, statement)
    return ended + [replace(each, last=statements[-1]) for each in current.values()]


def strongest(statement: Statement) -> list[Lock]:
    """What a statement locks, each relation in the strongest mode only."""
    by_relation: dict[int, Lock] = {}
    for lock in statement.locks:
        known = by_relation.get(lock.relation.oid)
        if known is None or known.mode < lock.mode:
            by_relation[lock.relation.oid] = lock
    return list(by_relation.values())


def _tells_more(index: Held, all_held: list[Held]) -> bool:
    return index.mode.dangerous and not any(
        each.relation.oid == index.relation.table
        and each.mode >= index.mode
        and each.covers(index.first.number)
        and each.covers(index.last.number)
        for each in all_held
    )


def bars(trace: Trace, locks: list[Held], sizes: Mapping[str, Size] | None) -> list[Bar]:
    """Locks as bars over the statements of their revision."""
    places = {each.number: place for place, each in enumerate(trace.statements)}
    unit = 100 / max(len(places), 1)
    found = []
    for each in locks:
        first, last = places[each.first.number], places[each.last.number]
        strength = "exclusive" if each.mode is LockMode.ACCESS_EXCLUSIVE else "strong"
        found.append(
            Bar(
                each.relation.name,
                each.table,
                str(each.mode),
                strength if each.mode.dangerous else "weak",
                _in_words(trace, each, sizes),
                round(first * unit, 3),
                round((last - first + 1) * unit, 3),
            )
        )
    return found


def _in_words(trace: Trace, each: Held, sizes: Mapping[str, Size] | None) -> str:
    first, last = each.first.number, each.last.number
    span = f"statement {first}" if first == last else f"statements {first} to {last}"
    words = [f"{span}; blocks {each.mode.blocks}"]
    if sizes is not None and (size := sizes.get(each.table)) is not None:
        words.append(f"{size.rows:,} rows, {bytes_text(size.bytes)}")
    if (seconds := estimated(trace, each.first, each.table, sizes)) is not None:
        words.append(f"about {seconds:,.1f} s or more")
    return "; ".join(words)


def ticks(trace: Trace) -> list[Tick]:
    """The scale: a tick per statement, at most twelve of them with their numbers."""
    statements = trace.statements
    unit = 100 / max(len(statements), 1)
    step = -(-len(statements) // 12)
    found = []
    for place, each in enumerate(statements):
        following = statements[place + 1 : place + 2]
        ends = bool(following) and following[0].transaction != each.transaction
        commit = round((place + 1) * unit, 3) if ends else None
        found.append(Tick(round((place + 0.5) * unit, 3), each.number, place % step == 0, commit))
    return found
