"""Statements in words."""

from schema.review.facts import LockMode, Written
from schema.review.page.statements import transactions
from tests.support.page import INDEX, KERNELS, SESSIONS, statement, trace


def test_statements_that_commit_by_themselves_stand_together() -> None:
    one = trace(
        "a",
        "A",
        statement(1, "a"),
        statement(2, "b"),
        statement(3, "c", transaction=2, alone=True),
        statement(4, "d", transaction=3, alone=True),
        statement(5, "e", transaction=4),
        statement(6, "f", transaction=5, alone=True),
    )
    assert [(title, [line.number for line in lines]) for title, lines in transactions(one, {4}, times=False)] == [
        ("Transaction 1", [1, 2]),
        ("Transactions 2 to 3, each statement committed by itself", [3, 4]),
        ("Transaction 4", [5]),
        ("Transaction 5, one statement committed by itself", [6]),
    ]


def test_what_a_statement_did() -> None:
    did = statement(
        1,
        "UPDATE sessions",
        (SESSIONS, LockMode.ROW_EXCLUSIVE),
        (KERNELS, LockMode.ACCESS_SHARE),
        (SESSIONS, LockMode.ACCESS_EXCLUSIVE),
        (INDEX, LockMode.ACCESS_SHARE),
        rows=50,
        scanned={2: 1200, 1: 50},
        written={1: Written(1, 50, 2)},
        rewritten=(SESSIONS,),
        renamed=((KERNELS, SESSIONS),),
        lock_timeout_ms=0,
        statement_timeout_ms=1500,
        notices=("one", "two"),
        error="no",
        sqlstate="40P01",
        seconds=1.25,
    )
    ((_, (line,)),) = transactions(trace("a", "A", did), set(), times=True)
    assert line.facts == (
        ("Timeouts", "lock_timeout none, statement_timeout 1.5 s"),
        ("On the scratch server", "1,250.0 ms"),
        ("Rows", "50"),
        (
            "Locks",
            "public.sessions ACCESS EXCLUSIVE, public.ix_kernels_status ACCESS SHARE, public.kernels ACCESS SHARE",
        ),
        ("Rewrites", "public.sessions"),
        ("Scans", "public.kernels (1,200 rows), public.sessions (50 rows)"),
        ("Writes", "public.sessions (53 rows)"),
        ("Renames", "public.kernels to public.sessions"),
        ("Server says", "one\ntwo"),
        ("Error", "no (40P01)"),
    )
    assert line.marks == ("fails", "ACCESS EXCLUSIVE", "rewrites", "scans")
    assert line.to_open


def test_a_statement_is_open_when_a_finding_is_about_it() -> None:
    one = trace("a", "A", statement(1, "a"), statement(2, "b"))
    ((_, lines),) = transactions(one, {2, None}, times=False)
    assert [line.to_open for line in lines] == [False, True]
