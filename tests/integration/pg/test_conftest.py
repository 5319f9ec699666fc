"""The suite's own fixtures: right majors, fresh clones, nothing left behind, whatever a test leaves open."""

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


LEFT: list[tuple[str, psycopg.Connection]] = []


def test_leaves_a_transaction_open_on_purpose(empty_target: Target) -> None:
    connection = psycopg.connect(empty_target.conninfo)
    connection.execute("CREATE TABLE left_open ()")
    LEFT.append((str(empty_target.url.database), connection))


def test_what_was_left_open_is_gone(server: object, empty_target: Target) -> None:
    assert LEFT
    name, connection = LEFT.pop(0)
    with psycopg.connect(empty_target.conninfo) as other:
        assert not other.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchall()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    connection.close()
