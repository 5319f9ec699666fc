"""Connections through PgBouncer: settings hold in each transaction, and none stays behind for others."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from schema.errors import DatabaseUnreachableError
from schema.pg.connect import connect, engine, is_pooled
from schema.pg.target import Target
from tests.support.pooler import pooled, pooler

SHOW = "SELECT current_setting('lock_timeout'), current_setting('search_path'), current_setting('TimeZone')"


@pytest.fixture(params=["refuses options", "drops options", "session mode"])
def through(request: pytest.FixtureRequest, server: Any, empty_database: str) -> Iterator[Target]:
    more = {"ignore_startup_parameters": "options"} if request.param == "drops options" else {}
    mode = "session" if request.param == "session mode" else "transaction"
    with pooler(server, mode, **more) as folder:
        yield Target.parse(pooled(empty_database, folder), "the tests")


def test_settings_hold_in_each_transaction_and_leave_nothing(through: Target, empty_target: Target) -> None:
    with connect(empty_target) as plain:
        before = plain.execute(SHOW).fetchone()
        assert not is_pooled(plain)
    wanted = ("1500ms", '"a b", public', "UTC")
    with connect(through, lock_timeout_ms=1500, settings={"search_path": '"a b", public'}) as connection:
        assert is_pooled(connection)
        for _ in range(2):
            assert connection.execute(SHOW).fetchone() == wanted
            connection.rollback()
        with connection.transaction(), connection.transaction():
            assert connection.execute(SHOW).fetchone() == wanted
        connection.commit()
        connection.autocommit = True
        # Outside of a transaction the session belongs to everybody.
        shown = connection.execute(SHOW).fetchone()
        assert shown is not None
        assert before is not None
        assert shown[:2] == ("0", before[1])
        with connection.transaction():
            assert connection.execute(SHOW).fetchone() == wanted


def test_an_engine_has_them_too(through: Target) -> None:
    made = engine(through, lock_timeout_ms=1500)
    with made.connect() as connection:
        assert not connection.in_transaction()
        assert connection.execute(sa.text("SHOW lock_timeout")).scalar_one() == "1500ms"
        assert is_pooled(connection.connection.driver_connection)


def test_options_of_the_person_are_not_lost_silently(
    server: Any, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=5MB")
    with pooler(server) as folder:
        with pytest.raises(DatabaseUnreachableError, match="unsupported startup parameter") as refused:
            connect(Target.parse(pooled(empty_database, folder), "the tests"))
        assert "PGOPTIONS" in refused.value.hint


def test_a_pipeline_has_them(through: Target) -> None:
    with connect(through, lock_timeout_ms=1500) as connection, connection.pipeline():
        cursor: psycopg.Cursor[Any] = connection.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("1500ms",)
