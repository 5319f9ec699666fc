"""The suite's own fixtures: right majors, fresh clones, nothing left behind, whatever a test leaves open."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from schema.pg.target import Target
from tests.support.recycled import Recycled


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


def test_a_lent_database_is_emptied_or_goes(server: Any, head_template: str) -> None:
    made: list[str] = []

    @contextmanager
    def make() -> Iterator[str]:
        with psycopg.connect(server.url("postgres").replace("+psycopg", ""), autocommit=True) as other:
            made.append(f"lent_{uuid.uuid4().hex[:12]}")
            name = sql.Identifier(made[-1])
            other.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(head_template)))
            yield server.url(made[-1])
            other.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    recycled, opened = Recycled(make), []
    with make() as url, psycopg.connect(url.replace("+psycopg", "")) as connection:
        slot_types = connection.execute("SELECT count(*) FROM resource_slot_types").fetchone()
        assert slot_types not in (None, (0,))
    made.clear()
    for change in CHANGES:
        with recycled.lent() as url:
            connection = psycopg.connect(url.replace("+psycopg", ""))
            assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,), change
            assert connection.execute("SELECT count(*) FROM resource_slot_types").fetchone() == slot_types
            assert connection.execute("SELECT count(*) FROM pg_stats WHERE schemaname = 'public'").fetchone() == (0,)
            connection.execute("INSERT INTO sessions (name) SELECT n FROM generate_series(1, 10) AS n")
            connection.execute("ANALYZE sessions")
            connection.execute(sql.SQL(change))
            connection.commit()
            opened.append(connection)
    recycled.close()
    for connection in opened:
        connection.close()
    # The first four are one, the open connection notwithstanding; each change of the schema costs one.
    assert len(made) == len(CHANGES) - 4


CHANGES = (
    "SELECT",
    "UPDATE sessions SET name = 'x'",
    "DELETE FROM resource_slot_types WHERE slot_name <> 'cpu'",
    "UPDATE alembic_version SET version_num = 'x'",
    "ALTER TABLE kernel_groups ADD note text",
    "ALTER TABLE sessions ALTER name SET STATISTICS 7",
    "ALTER TABLE sessions DROP CONSTRAINT IF EXISTS none, ALTER name SET DEFAULT 'x'",
    "GRANT SELECT ON sessions TO PUBLIC",
    "COMMENT ON TABLE sessions IS 'x'",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DROP INDEX ix_kernels_kernel_group_id",
    "CREATE SCHEMA other",
    "DO $$BEGIN EXECUTE format('COMMENT ON DATABASE %I IS $a$x$a$', current_database()); END$$",
    "SELECT",
)
