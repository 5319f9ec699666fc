"""From which statement to which a revision holds which lock."""

from dataclasses import dataclass

from schema.review.facts import Lock, LockMode, Relation, Statement, Trace


@dataclass(frozen=True)
class Held:
    """A lock in its strongest mode, over statements of one transaction that follow each other."""

    relation: Relation
    mode: LockMode
    first: Statement
    """The one that takes it."""
    last: Statement
    """The last that runs under it in this mode: it is made stronger by the next, or released by the commit."""

    def covers(self, number: int) -> bool:
        """Whether it is held while this statement runs."""
        return self.first.number <= number <= self.last.number


def held(trace: Trace) -> list[Held]:
    """Every lock on relations that existed before, in the order they are taken, the strongest first.

    Of indexes only what blocks more than the lock on their table does.
    """
    found: list[Held] = []
    for number in dict.fromkeys(each.transaction for each in trace.statements):
        found += _of_transaction([each for each in trace.statements if each.transaction == number])
    found = [each for each in found if not each.relation.is_index or _tells_more(each, found)]
    return sorted(found, key=lambda each: (each.first.number, -each.mode, each.relation.name))


def _of_transaction(statements: list[Statement]) -> list[Held]:
    ended: list[Held] = []
    current: dict[int, Held] = {}
    for before, statement in zip([None, *statements], statements, strict=False):
        for lock in _strongest(statement):
            known = current.get(lock.relation.oid)
            if known is not None and known.mode >= lock.mode:
                continue
            if known is not None and before is not None:
                ended.append(Held(known.relation, known.mode, known.first, before))
            current[lock.relation.oid] = Held(lock.relation, lock.mode, statement, statement)
    return ended + [Held(each.relation, each.mode, each.first, statements[-1]) for each in current.values()]


def _strongest(statement: Statement) -> list[Lock]:
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
