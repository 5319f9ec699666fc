"""What holds a backfill: each signal on a real server, but for those of standbys, see test_replication."""

import os
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from schema.backfill import claims, ledger
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.stop import End, Stop
from schema.backfill.throttle.monitor import Monitor
from schema.errors import UsageError
from schema.models.status import RunState
from schema.pg.scratch import ScratchServer
from tests.support.backfill import holds, only, until

JOB = KernelGroups()


def test_a_quiet_server_holds_nothing(cluster):
    assert Monitor(JOB, {}).poll(cluster.connection) == ()


def test_unknown_signal():
    with pytest.raises(UsageError, match="no throttle signal is named 'moon'"):
        Monitor(JOB, {"moon": 1})


def test_role_that_may_not_look_is_held_with_the_reason(cluster, connect):
    name = sql.Identifier(f"blind_{cluster.connection.info.dbname}")
    cluster.connection.execute(sql.SQL("CREATE ROLE {}").format(name))
    try:
        connection = connect()
        connection.execute(sql.SQL("SET ROLE {}").format(name))
        assert holds(connection, "oldest_xmin") == [
            "oldest_xmin: it cannot be read: the role may not see other sessions' snapshots; grant it pg_monitor"
        ]
        assert holds(connection, "wal_rate") == []
    finally:
        cluster.connection.execute(sql.SQL("DROP ROLE {}").format(name))


def test_signal_that_the_server_refuses_holds_with_its_words(cluster, operator):
    cluster.connection.execute("REVOKE EXECUTE ON FUNCTION pg_current_wal_insert_lsn() FROM PUBLIC")
    try:
        with operator.connect() as connection:
            assert holds(connection, "wal_rate") == [
                "wal_rate: it cannot be read: permission denied for function pg_current_wal_insert_lsn"
            ]
            assert holds(connection, "dead_rows") == []
    finally:
        cluster.connection.execute("GRANT EXECUTE ON FUNCTION pg_current_wal_insert_lsn() TO PUBLIC")


def test_oldest_xmin(cluster, connect):
    with connect() as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT FROM kernels")
        for _ in range(6):
            cluster.connection.execute("SELECT pg_current_xact_id()")
        [said] = holds(cluster.connection, "oldest_xmin", 5)
        assert said.startswith("oldest_xmin: ")
        assert said.endswith(" transactions, the limit is 5 transactions")
        assert holds(cluster.connection, "oldest_xmin") == []


def test_dead_rows(cluster, monkeypatch):
    monkeypatch.setattr("schema.backfill.throttle.dead_rows.ROWS_MIN", 5)
    cluster.connection.execute("ALTER TABLE kernels SET (autovacuum_enabled = off)")
    session = cluster.session()
    for _ in range(5):
        cluster.kernel(session)
    for _ in range(2):
        cluster.connection.execute("UPDATE kernels SET status = 'RUNNING'")
    cluster.connection.execute("SELECT pg_stat_force_next_flush()")
    said = until(lambda: holds(cluster.connection, "dead_rows"))
    assert said == ["dead_rows: 2.00 dead rows per live one, the limit is 0.50 dead rows per live one"]
    cluster.connection.execute("VACUUM kernels")
    until(lambda: not holds(cluster.connection, "dead_rows"))


def test_vacuum_of_a_target_table(cluster, connect):
    cluster.connection.execute("ALTER TABLE kernels SET (autovacuum_enabled = off)")
    cluster.connection.execute(
        "WITH s AS (INSERT INTO sessions DEFAULT VALUES RETURNING id)"
        " INSERT INTO kernels (session_id) SELECT id FROM s, generate_series(1, 3000)"
    )
    vacuuming = connect()
    # Slowly: two tenths of a second for every page or so.
    vacuuming.execute("SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1")
    thread = threading.Thread(target=lambda: cancelled(vacuuming))
    thread.start()
    try:
        said = until(lambda: holds(cluster.connection, "vacuum"))
        assert said == ["vacuum: 1 tables, the limit is 0 tables"]
    finally:
        vacuuming.cancel_safe()
        thread.join()
    assert holds(cluster.connection, "vacuum") == []


def cancelled(connection):
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("VACUUM kernels")


def test_wal_rate(cluster):
    monitor = Monitor(JOB, only("wal_rate", 1000))
    assert monitor.poll(cluster.connection) == ()
    cluster.connection.execute("CREATE TABLE t AS SELECT repeat('x', 100) FROM generate_series(1, 2000)")
    [hold] = monitor.poll(cluster.connection)
    assert hold.name == "wal_rate"


def test_somebody_waits_so_the_next_batch_is_smaller(cluster, connect):
    """An application that wants a kernel of an open batch: the sizes afterwards are half."""
    made = sorted(cluster.session() for _ in range(400))
    kernels = {session: cluster.kernel(session) for session in made}
    sizes, waiters = [], []

    class Job(KernelGroups):
        def write(self, connection, run_id, keys):
            written = super().write(connection, run_id, keys)
            sizes.append(len(keys))
            if len(sizes) == 1:
                application = connect()
                waiters.append(
                    threading.Thread(
                        target=application.execute,
                        args=("UPDATE kernels SET status = 'RUNNING' WHERE id = %s", (kernels[keys[0]],)),
                    )
                )
                waiters[0].start()
                until(
                    lambda: cluster.connection.execute(
                        "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted", (application.info.backend_pid,)
                    ).fetchone()[0]
                )
            return written

    # A target that lets the size stay where it is.
    cluster.run(Job(), batch_start=100, batch_max=100, target=timedelta(seconds=60))
    waiters[0].join()
    assert sizes[:2] == [100, 50]


def test_held_run_says_why_and_goes_on(cluster):
    for _ in range(4):
        cluster.kernel(cluster.session())
    said, seen = [], []
    stop = Stop()
    held_chunk = (
        "SELECT held, state, totals, fence, lease_expires_at > clock_timestamp() FROM backfill_chunks"
        " WHERE held IS NOT NULL"
    )
    # Nothing passes below -1, so the first look holds; the thread below lifts nothing but stops the run.
    thread = threading.Thread(
        target=lambda: (
            seen.append(until(lambda: cluster.connection.execute(held_chunk).fetchone())),
            # Longer than the lease, which is renewed all along.
            time.sleep(0.8),
            seen.append(cluster.connection.execute(held_chunk).fetchone()),
            stop.request(End.INTERRUPTED),
        )
    )
    thread.start()
    outcome = cluster.run(
        limits=only("oldest_xmin", -1), lease=timedelta(seconds=0.6), watch={"notify": said.append, "stop": stop}
    )
    thread.join()
    assert outcome.end == "interrupted"
    for held, state, totals, fence, leased in seen:
        assert held.startswith("oldest_xmin: ")
        assert (state, totals, fence, leased) == ("claimed", {}, 1, True)
    assert len(seen) == 2
    assert said[0].startswith("Held by oldest_xmin: ")
    [chunk] = claims.chunks(cluster.connection, ledger.latest(cluster.connection, "kernel_groups").id)
    assert (chunk.owner, chunk.held) == (None, None)
    assert cluster.run().end == "complete"


def test_pause_reaches_a_run_that_is_held(cluster):
    cluster.kernel(cluster.session())
    paused = []

    def pause(message):
        if message.startswith("Held by"):
            paused.append(ledger.steer(cluster.connection, JOB.name, RunState.PAUSED))

    outcome = cluster.run(limits=only("oldest_xmin", -1), watch={"notify": pause})
    assert (len(paused), outcome.end, outcome.totals) == (1, "paused", {})


def test_archive_queue(server):
    # A command that fails while its file is there, so that nothing has to be reloaded.
    stuck = Path(tempfile.gettempdir()) / f"stuck-{os.getpid()}"
    settings = {"wal_level": "replica", "archive_mode": "on", "archive_command": f"test ! -e {stuck}"}
    with (
        ScratchServer(server.bindir, settings=settings) as scratch,
        psycopg.connect(
            host=scratch.host, port=scratch.port, user="postgres", dbname="postgres", autocommit=True
        ) as primary,
    ):
        assert holds(primary, "archive_queue", 0) == []
        switch(primary)
        until(lambda: primary.execute("SELECT last_archived_wal IS NOT NULL FROM pg_stat_archiver").fetchone()[0])
        until(lambda: not holds(primary, "archive_queue", 0))
        stuck.touch()
        try:
            for _ in range(3):
                switch(primary)
            assert holds(primary, "archive_queue", 1) == ["archive_queue: 3 files, the limit is 1 files"]
            assert holds(primary, "archive_queue") == []
        finally:
            stuck.unlink()


def switch(connection):
    connection.execute("SELECT pg_current_xact_id()")
    connection.execute("SELECT pg_switch_wal()")
    connection.execute("SELECT pg_current_xact_id()")
