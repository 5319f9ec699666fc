"""How seeding writes: equal rows, whole blocks, refusals, and beside other writers."""

import subprocess
import sys
import threading
import time

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from schema.errors import DatabaseError, UsageError
from schema.models import metadata
from schema.seed import Profile, SeedReport, seed
from schema.seed.block import BLOCK_SIZE
from schema.seed.copytext import COLUMNS
from tests.support.majors import embedded_only


def digests(connection: psycopg.Connection) -> dict[str, tuple[int, str]]:
    """Number and checksum of the rows of every table."""
    found = {}
    for table in COLUMNS:
        query = sql.SQL('SELECT count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text COLLATE "C")) FROM {} AS t')
        row = connection.execute(query.format(sql.Identifier(table))).fetchone()
        assert row is not None
        found[table] = row
    connection.rollback()
    return found


def rows(connection: psycopg.Connection) -> dict[str, int]:
    return {table: number for table, (number, _) in digests(connection).items()}


@pytest.mark.parametrize("profile", Profile)
def test_equal_arguments_give_equal_rows(connection: psycopg.Connection, empty_database: str, profile: Profile) -> None:
    engine = sa.create_engine(empty_database)
    metadata.create_all(engine)
    engine.dispose()
    conninfo = sa.make_url(empty_database).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(conninfo, options="-c TimeZone=UTC") as other:
        report = seed(connection, sessions=2500, seed=11, profile=profile)
        repeated = seed(other, sessions=2500, seed=11, profile=profile)
        # The history seeds the slot types, create_all does not; the digests below hold the two lists to each other.
        assert (repeated.rows["resource_slot_types"], report.rows["resource_slot_types"]) == (14, 0)
        assert {**repeated.rows, "resource_slot_types": 0} == report.rows
        first = digests(connection)
        assert digests(other) == first
    assert all(number > 0 for number, _ in first.values())


def test_another_seed_adds_a_tenant_and_the_same_one_is_refused(connection: psycopg.Connection) -> None:
    first = seed(connection, sessions=300, seed=1)
    before = digests(connection)
    with pytest.raises(DatabaseError, match="seed 1 is in this database already: it has the domain seed-1") as refused:
        seed(connection, sessions=20, seed=1, profile=Profile.CLEAN)
    assert "another --seed" in refused.value.hint
    assert digests(connection) == before
    second = seed(connection, sessions=300, seed=2)
    assert second.rows["images"] == second.rows["agents"] == 0
    assert rows(connection) == {table: first.rows[table] + second.rows[table] for table in COLUMNS} | {
        "resource_slot_types": before["resource_slot_types"][0]
    }


@pytest.mark.parametrize("sessions", [0, 1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1])
def test_any_number_of_sessions(connection: psycopg.Connection, sessions: int) -> None:
    committed: list[int] = []
    report = seed(connection, sessions=sessions, progress=committed.append)
    assert report.rows["sessions"] == rows(connection)["sessions"] == sessions == sum(committed)
    assert report.rows["users"] == 200


@pytest.mark.parametrize(("sessions", "number"), [(-1, 0), (1, -1), (1, 2**63)])
def test_numbers_out_of_range_are_usage_errors(connection: psycopg.Connection, sessions: int, number: int) -> None:
    with pytest.raises(UsageError):
        seed(connection, sessions=sessions, seed=number)
    assert rows(connection)["domains"] == 0


def test_largest_seed(connection: psycopg.Connection) -> None:
    assert seed(connection, sessions=50, seed=2**63 - 1).rows["sessions"] == 50


def test_a_connection_inside_a_transaction_is_refused(connection: psycopg.Connection) -> None:
    connection.execute("SELECT 1")
    with pytest.raises(UsageError, match="inside a transaction"):
        seed(connection, sessions=1)


def test_an_empty_database_is_sent_to_upgrade(empty_database: str) -> None:
    conninfo = sa.make_url(empty_database).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(conninfo) as connection, pytest.raises(DatabaseError, match="lacks 14 tables") as refused:
        seed(connection, sessions=1)
    assert "schemactl upgrade" in refused.value.hint


def test_a_database_before_system_session_environ(connection: psycopg.Connection) -> None:
    connection.execute("DROP TABLE system_session_environ")
    connection.commit()
    report = seed(connection, sessions=10)
    assert (report.rows["sessions"], report.rows["system_session_environ"]) == (10, 0)


def test_interruption_leaves_whole_blocks(connection: psycopg.Connection) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seed(connection, sessions=3 * BLOCK_SIZE, progress=interrupt)
    left = rows(connection)
    assert left["sessions"] == BLOCK_SIZE
    assert left["kernels"] > BLOCK_SIZE


def test_a_failing_block_leaves_nothing_of_it(connection: psycopg.Connection) -> None:
    # The routings come last in a block: all that precedes them has to go as well.
    connection.execute("ALTER TABLE routings ADD CHECK (traffic_ratio > 5)")
    connection.commit()
    with pytest.raises(psycopg.errors.CheckViolation):
        seed(connection, sessions=100)
    assert rows(connection)["sessions"] == 0


def test_images_that_are_there_already_are_used(connection: psycopg.Connection) -> None:
    connection.execute(
        """INSERT INTO images (registry, project, name, tag, architecture)
           VALUES ('cr.example.com', 'stable', 'vllm', '24.09-cuda12.6', 'x86_64')"""
    )
    connection.commit()
    assert seed(connection, sessions=500).rows["images"] == 41
    used = connection.execute(
        """SELECT count(*), bool_and(i.id = k.image_id)
           FROM kernels k
           JOIN images i ON k.image = i.registry || '/' || i.project || '/' || i.name || ':' || i.tag
                        AND k.architecture = i.architecture
           WHERE k.image_id IS NOT NULL AND i.name = 'vllm' AND i.tag = '24.09-cuda12.6'"""
    ).fetchone()
    assert used is not None
    assert used[0] > 0
    assert used[1] is True


def test_two_runs_of_one_seed_at_once(connection: psycopg.Connection, conninfo: str) -> None:
    """The second waits for the first one's mark, then is refused, and has written nothing."""
    outcome: list[SeedReport | DatabaseError] = []

    def second() -> None:
        with psycopg.connect(conninfo, application_name="second") as other:
            try:
                outcome.append(seed(other, sessions=5))
            except DatabaseError as error:
                outcome.append(error)

    with psycopg.connect(conninfo) as first:
        first.execute("INSERT INTO domains (name) VALUES ('seed-0')")
        thread = threading.Thread(target=second)
        thread.start()
        deadline = time.monotonic() + 10
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'second' AND wait_event_type = 'Lock'"
        while connection.execute(waiting).fetchone() != (1,):
            connection.rollback()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        connection.rollback()
        first.commit()
        thread.join(10)
    assert [type(found) for found in outcome] == [DatabaseError]
    assert rows(connection)["users"] == 0


def test_other_connections_can_write_meanwhile(connection: psycopg.Connection, conninfo: str) -> None:
    """Between the blocks nothing is locked; rows of earlier blocks can be changed and parents be used."""
    with psycopg.connect(conninfo, autocommit=True, options="-c lock_timeout=1s") as other:

        def write(_: int) -> None:
            assert other.execute("UPDATE kernels SET status = status").rowcount > 0
            other.execute("ALTER TABLE sessions ALTER COLUMN name SET STATISTICS 100")

        assert seed(connection, sessions=BLOCK_SIZE + 10, progress=write).rows["sessions"] == BLOCK_SIZE + 10


MEASURE = """
import resource, sys
import psycopg
from schema.seed import seed

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)

with psycopg.connect(sys.argv[1]) as connection:
    seed(connection, sessions=4_000, seed=1)
    before = peak()
    seed(connection, sessions=16_000, seed=2)
    print(peak() - before)
"""


@embedded_only
def test_memory_does_not_grow_with_the_number_of_sessions(conninfo: str) -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE, conninfo], capture_output=True, text=True, check=True)
    # Held in memory, 12,000 more sessions would be over 60 MB.
    assert int(done.stdout) < 12 * 1024


def test_every_column_is_in_the_catalog(connection: psycopg.Connection) -> None:
    found = connection.execute(
        """SELECT c.relname, a.attname, a.attnotnull AND NOT a.atthasdef
           FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped"""
    ).fetchall()
    present = {(table, column) for table, column, _ in found}
    assert {(table, column) for table, columns in COLUMNS.items() for column in columns} - present == set()
    required = {(table, column) for table, column, needed in found if needed and table in COLUMNS}
    assert {(table, column) for table, column in required if column not in COLUMNS[table]} == set()
