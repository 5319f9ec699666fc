"""The suite's own fixtures: right majors, fresh clones, nothing left behind, whatever a test leaves open."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from schema.pg.target import Target


def test_the_server_is_of_the_major_asked_for(connection: psycopg.Connection, major: str) -> None:
    assert str(connection.info.server_version // 10000) == major


def test_head_has_tables_and_empty_has_none(head_target: Target, empty_target: Target) -> None:
    counted = []
    for target in (head_target, empty_target):
        with psycopg.connect(target.conninfo) as connection:
            row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
            assert row is not None
            counted.append(row[0])
    assert counted[0] > 15
    assert counted[1] == 0


@pytest.fixture
def left_open(server: Any) -> Iterator[list[tuple[str, psycopg.Connection]]]:
    """Set up before the database and so torn down after it: looks at what became of a connection left open."""
    left: list[tuple[str, psycopg.Connection]] = []
    yield left
    ((name, connection),) = left
    with psycopg.connect(server.url("postgres").replace("+psycopg", "")) as other:
        assert not other.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchall()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    connection.close()


def test_a_transaction_left_open_does_not_keep_the_database(
    left_open: list[tuple[str, psycopg.Connection]], empty_target: Target
) -> None:
    connection = psycopg.connect(empty_target.conninfo)
    connection.execute("CREATE TABLE left_open ()")
    left_open.append((str(empty_target.url.database), connection))
