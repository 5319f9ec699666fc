"""What is done about each SQLSTATE."""

import psycopg
import pytest

from schema.backfill.policy import PAUSE_MAX_S, Action, Breaker, action, pause_s

EXPECTED = {
    Action.RETRY: "40001 40P01 08000 08003 08006 57P01 57P02 57P03 53300 25P03",
    Action.LOCKED: "55P03",
    Action.HALVE: "57014",
    Action.REREAD: "23503",
    Action.BISECT: "22001 22P02 22003 23502 23505 23514",
    Action.ABORT: "42501 42P01 42703 28000 28P01 53100 XX000 25P01",
    Action.PRIMARY: "25006",
}


@pytest.mark.parametrize(
    ("state", "expected"), [(state, act) for act, states in EXPECTED.items() for state in states.split()]
)
def test_by_state(state, expected):
    assert action(psycopg.errors.lookup(state)()) is expected


def test_transaction_timeout_which_the_driver_may_not_know():
    error = type("TransactionTimeout", (psycopg.OperationalError,), {"sqlstate": "25P04"})()
    assert action(error) is Action.RETRY


def test_without_state():
    assert action(psycopg.OperationalError("server closed the connection unexpectedly")) is Action.RETRY
    assert action(psycopg.ProgrammingError("the query has 0 placeholders")) is Action.ABORT


def test_pauses_grow_to_a_cap():
    assert 0.05 <= pause_s(1) <= 0.1
    assert PAUSE_MAX_S / 2 <= pause_s(50) <= PAUSE_MAX_S


def test_breaker_opens_at_more_than_half_of_fifty():
    breaker = Breaker()
    for _ in range(25):
        breaker.note(failed=True)
    assert not breaker.is_open
    for _ in range(24):
        breaker.note(failed=False)
    assert not breaker.is_open
    breaker.note(failed=True)
    assert breaker.is_open
    breaker.note(failed=False)
    assert not breaker.is_open
