"""From which statement to which a lock is held."""

from schema.review.facts import LockMode, Statement
from schema.review.page.timeline import held
from tests.support.page import AGENTS, INDEX, KERNELS, SESSIONS, statement, trace

WEAK, SHARE, EXCLUSIVE = LockMode.ROW_EXCLUSIVE, LockMode.SHARE, LockMode.ACCESS_EXCLUSIVE


def spans(*statements: Statement) -> list[tuple[str, str, int, int]]:
    found = held(trace("a", "A", *statements))
    return [(each.relation.name, str(each.mode), each.first.number, each.last.number) for each in found]


def test_a_lock_is_held_until_its_transaction_commits() -> None:
    assert spans(
        statement(1, "a", (SESSIONS, EXCLUSIVE)),
        statement(2, "b", (KERNELS, SHARE)),
        statement(3, "c"),
        statement(4, "d", (AGENTS, WEAK), transaction=2),
    ) == [
        ("public.sessions", "ACCESS EXCLUSIVE", 1, 3),
        ("public.kernels", "SHARE", 2, 3),
        ("public.agents", "ROW EXCLUSIVE", 4, 4),
    ]


def test_a_lock_that_is_made_stronger_is_two_spans() -> None:
    assert spans(
        statement(1, "a", (SESSIONS, WEAK)),
        statement(2, "b"),
        statement(3, "c", (SESSIONS, SHARE), (SESSIONS, EXCLUSIVE)),
        statement(4, "d", (SESSIONS, WEAK)),
    ) == [("public.sessions", "ROW EXCLUSIVE", 1, 2), ("public.sessions", "ACCESS EXCLUSIVE", 3, 4)]


def test_the_next_transaction_begins_without_locks() -> None:
    assert spans(
        statement(1, "a", (SESSIONS, EXCLUSIVE)),
        statement(2, "b", (SESSIONS, WEAK), transaction=2, alone=True),
    ) == [("public.sessions", "ACCESS EXCLUSIVE", 1, 1), ("public.sessions", "ROW EXCLUSIVE", 2, 2)]


def test_of_indexes_only_what_blocks_more_than_the_table_s_lock() -> None:
    assert spans(statement(1, "a", (KERNELS, EXCLUSIVE), (INDEX, EXCLUSIVE))) == [
        ("public.kernels", "ACCESS EXCLUSIVE", 1, 1)
    ]
    assert spans(statement(1, "REINDEX", (KERNELS, SHARE), (INDEX, EXCLUSIVE))) == [
        ("public.ix_kernels_status", "ACCESS EXCLUSIVE", 1, 1),
        ("public.kernels", "SHARE", 1, 1),
    ]
    assert spans(statement(1, "rename", (INDEX, LockMode.SHARE_UPDATE_EXCLUSIVE))) == []


def test_no_statements_no_locks() -> None:
    assert spans() == []
