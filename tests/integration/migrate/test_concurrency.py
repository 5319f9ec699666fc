"""Runs beside each other, and beside an application that works."""

import re
import subprocess
import threading
import time
from pathlib import Path

import psycopg
import pytest

from schema.errors import LockTimeoutError
from schema.migrate.lock import RUNNER_LOCK
from tests.support.history import HEAD, REVISIONS, Database, alembic, alembic_command, alembic_environment, ini, until


def start(database: Database) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        alembic_command("upgrade", "head"),
        env=alembic_environment(database.url),
        stderr=subprocess.PIPE,
        text=True,
    )


def waiting(database: Database) -> int:
    return database.value(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'schemactl runner lock on %' "
        "AND datname = current_database()"
    )


def test_of_two_runners_one_works_and_one_waits(database: Database) -> None:
    with database.connection() as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", [RUNNER_LOCK])
        runners = [start(database), start(database)]
        until(lambda: waiting(database) == 2)
        assert not database.table_exists("alembic_version")
    output = [runner.communicate(timeout=60)[1] for runner in runners]
    assert [runner.returncode for runner in runners] == [0, 0], output
    assert sorted(text.count("Running upgrade") for text in output) == [0, REVISIONS]
    assert all("Another run is at work on this database (server process" in text for text in output)
    assert database.current() == (HEAD,)


def test_the_lock_is_free_after_a_run_even_a_failed_one(database: Database) -> None:
    database.run("CREATE TABLE kernels (a int)")
    for _ in range(2):
        with pytest.raises(Exception, match="already exists"):
            database.upgrade()
    database.run("DROP TABLE kernels")
    database.upgrade()
    until(lambda: database.runner_locks() == 0)


def test_a_runner_gives_up_at_its_deadline(database: Database, tmp_path: Path) -> None:
    database.config = ini(tmp_path, runner_wait_s=1)
    name = "schemactl runner lock on tests-host (17)"
    with database.connection(application_name=name) as holder, holder.transaction():
        holder.execute("SELECT pg_advisory_lock(%s)", [RUNNER_LOCK])
        pid = holder.info.backend_pid
        with pytest.raises(LockTimeoutError) as refused:
            database.upgrade()
        plain = alembic("upgrade", "head", url=database.url, config=database.config)
    shown = rf"another run is upgrading or downgrading this database \(server process {pid} for tests-host \(17\), "
    shown += r"since \d+ s\), and did not end within 1 s"
    assert re.fullmatch(shown, refused.value.message)
    assert plain.returncode != 0
    assert re.search(shown, plain.stderr)
    assert "Traceback" not in plain.stderr
    assert not database.table_exists("alembic_version")


def test_commands_that_only_look_do_not_wait(database: Database) -> None:
    database.upgrade()
    with database.connection() as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", [RUNNER_LOCK])
        assert database.alembic("current") == [f"{HEAD} (head)"]
        assert database.alembic("check") == ["No new upgrade operations detected."]


def test_a_busy_table_stops_a_revision_before_it_has_done_anything(database: Database, tmp_path: Path) -> None:
    database.upgrade("1a6d9e3f5c28")
    database.seed(1)
    database.config = ini(tmp_path, lock_timeout_ms=200, lock_retry_s=0)
    before = database.catalog()
    with database.connection() as application:
        with application.transaction():
            application.execute("UPDATE kernels SET result = 'success'")
            with pytest.raises(LockTimeoutError) as refused:
                database.upgrade()
            plain = alembic("upgrade", "head", url=database.url, config=database.config)
        assert plain.returncode != 0
        assert (
            "PostgreSQL says: canceling statement due to lock timeout (SQLSTATE 55P03), tried once in" in plain.stderr
        )
        assert "Traceback" not in plain.stderr
        assert "revision 92b7e4d10f6a (" in refused.value.message
        assert "no revision was committed by this run" in refused.value.message
        assert refused.value.hint.startswith("A transaction holds a table it needs")
        assert (database.catalog(), database.current()) == (before, ("1a6d9e3f5c28",))
        with application.transaction():
            application.execute("UPDATE kernels SET result = 'failure'")
    run = database.upgrade()
    assert run.steps[0].revision.id == "92b7e4d10f6a"
    assert database.current() == (HEAD,)


def test_what_was_committed_before_a_lock_timeout_is_named(database: Database, tmp_path: Path) -> None:
    database.upgrade("c05e9b4a7f16")
    database.config = ini(tmp_path, lock_timeout_ms=200, lock_retry_s=0)
    database.downgrade("27d8f5b0a9e3")
    with database.connection() as application, application.transaction():
        application.execute("LOCK TABLE kernel_groups IN ROW EXCLUSIVE MODE")
        with pytest.raises(LockTimeoutError, match="committed by this run: c05e9b4a7f16"):
            database.upgrade()
    assert database.current() == ("c05e9b4a7f16",)


def test_index_builds_wait_for_a_long_transaction_without_blocking_writers(database: Database, tmp_path: Path) -> None:
    """CONCURRENTLY waits longer than lock_timeout for a writer; another writer goes on meanwhile."""
    database.upgrade("5e0c8a3b71d4")
    database.seed(1)
    database.config = ini(tmp_path, lock_timeout_ms=200, statement_timeout_ms=300)
    failures: list[BaseException] = []

    def upgrade() -> None:
        try:
            database.upgrade("b6f3d2791ce8")
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    building = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active'"
    )
    runner = threading.Thread(target=upgrade)
    with database.connection() as long, long.transaction():
        long.execute("UPDATE kernels SET result = 'success' WHERE cluster_role = 'main'")
        runner.start()
        until(lambda: database.value(f"{building} AND datname = current_database() AND wait_event_type = 'Lock'") == 1)
        with database.connection(lock_timeout_ms=100) as writer:
            for _ in range(20):
                writer.execute("UPDATE kernels SET result = 'failure' WHERE cluster_role = 'worker'")
                time.sleep(0.02)
        assert runner.is_alive()
    runner.join(timeout=30)
    assert failures == []
    assert database.index("ix_kernels_kernel_group_id") == ("public.kernels USING btree (kernel_group_id)", True)


def test_an_application_that_writes_all_the_time_never_fails(database: Database) -> None:
    """Old code on every state between: sessions start and end while the whole history of the groups goes by."""
    database.upgrade("3b8e1d6c9a47")
    database.seed(50)
    done = threading.Event()
    failures: list[psycopg.Error] = []
    slowest = 0.0
    written = 0

    def work() -> None:
        nonlocal slowest, written
        with database.connection() as application:
            while not done.is_set():
                began = time.monotonic()
                try:
                    with application.transaction():
                        row = application.execute(
                            "INSERT INTO sessions (name, user_uuid) "
                            "VALUES (gen_random_uuid()::text, gen_random_uuid()) RETURNING id"
                        ).fetchone()
                        application.execute("INSERT INTO kernels (session_id) VALUES (%s)", row)
                        application.execute("UPDATE kernels SET status = 'RUNNING' WHERE session_id = %s", row)
                except psycopg.Error as error:
                    failures.append(error)
                    return
                slowest = max(slowest, time.monotonic() - began)
                written += 1

    application = threading.Thread(target=work)
    application.start()
    try:
        database.upgrade()
        database.downgrade("3b8e1d6c9a47")
        database.upgrade()
    finally:
        done.set()
        application.join(timeout=30)
    assert failures == []
    assert written > 20
    assert slowest < 2
    assert database.value("SELECT count(*) FROM kernels") == 100 + written
