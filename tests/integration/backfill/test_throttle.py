"""What holds a backfill: each signal on a real server, a standby that lags, and one that disappears."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from schema.backfill import claims, ledger
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.stop import End, Stop
from schema.backfill.throttle.monitor import LIMITS, Monitor
from schema.errors import UsageError
from schema.models.status import RunState
from schema.pg.connect import connect
from schema.pg.scratch import ScratchServer
from schema.pg.target import Target
from tests.support.backfill import until

JOB = KernelGroups()


def only(name, limit=None):
    """Limits that leave one signal, with a limit of its own."""
    return {**dict.fromkeys(LIMITS), name: LIMITS[name].limit if limit is None else limit}


def holds(connection, name, limit=None):
    return [str(hold) for hold in Monitor(JOB, only(name, limit)).poll(connection)]


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
    # Nothing passes below -1, so the first look holds; the thread below lifts nothing but stops the run.
    thread = threading.Thread(
        target=lambda: (
            seen.append(
                until(
                    lambda: cluster.connection.execute(
                        "SELECT held, state, totals FROM backfill_chunks WHERE held IS NOT NULL"
                    ).fetchone()
                )
            ),
            stop.request(End.INTERRUPTED),
        )
    )
    thread.start()
    outcome = cluster.run(limits=only("oldest_xmin", -1), watch={"notify": said.append, "stop": stop})
    thread.join()
    assert outcome.end == "interrupted"
    [(held, state, totals)] = seen
    assert (state, totals) == ("claimed", {})
    assert held.startswith("oldest_xmin: ")
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


@dataclass
class Replicated:
    """A primary, and a folder with its standby's data."""

    primary: ScratchServer
    folder: Path

    def start_standby(self) -> None:
        self.primary.installation.start(self.folder, {"hot_standby": "on", "fsync": "off"}, socket=self.folder)

    def stop_standby(self) -> None:
        self.primary.installation.stop(self.folder, mode="immediate")

    def standby(self) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.folder), port=self.primary.port, user="postgres", dbname="postgres", autocommit=True
        )

    def connection(self) -> psycopg.Connection:
        return psycopg.connect(
            host=self.primary.host, port=self.primary.port, user="postgres", dbname="postgres", autocommit=True
        )


@pytest.fixture
def replicated(server) -> Iterator[Replicated]:
    with ScratchServer(
        server.bindir, settings={"wal_level": "replica", "wal_receiver_status_interval": "1"}
    ) as primary:
        folder = Path(tempfile.mkdtemp(prefix="standby-", dir="/tmp"))
        try:
            primary.installation.own(folder)
            done = primary.installation.run(
                "pg_basebackup",
                *("-D", str(folder / "data"), "-R", "-h", primary.host, "-p", str(primary.port), "-U", "postgres"),
                *("-c", "fast", "--no-sync"),
                folder=folder,
            )
            assert done.returncode == 0, done.stdout
            made = Replicated(primary, folder)
            made.start_standby()
            try:
                yield made
            finally:
                if (folder / "data/postmaster.pid").exists():
                    made.stop_standby()
        finally:
            shutil.rmtree(folder)


def test_standby_that_lags_and_one_that_disappears(replicated):
    with replicated.connection() as primary, replicated.standby() as standby:
        until(lambda: primary.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").fetchone())
        until(lambda: not holds(primary, "replication_lag_bytes", 1000))
        standby.execute("SELECT pg_wal_replay_pause()")
        primary.execute("CREATE TABLE t AS SELECT generate_series(1, 20000)")
        [said] = until(lambda: holds(primary, "replication_lag_bytes", 100_000))
        assert said.startswith("replication_lag_bytes: ")
        assert said.endswith(" MiB, the limit is 0.1 MiB")
        standby.execute("SELECT pg_wal_replay_resume()")
        until(lambda: not holds(primary, "replication_lag_bytes", 100_000))
        # The time that the standby took is known once it has replayed something that was late.
        standby.execute("SELECT pg_wal_replay_pause()")
        primary.execute("CREATE TABLE u AS SELECT generate_series(1, 1000)")
        time.sleep(0.3)
        standby.execute("SELECT pg_wal_replay_resume()")
        until(lambda: primary.execute("SELECT max(replay_lag) > '0.2 s' FROM pg_stat_replication").fetchone()[0])
        standby.execute("SELECT pg_wal_replay_pause()")
        primary.execute("CREATE TABLE v AS SELECT generate_series(1, 1000)")
        assert until(lambda: holds(primary, "replication_lag", 0.1))[0].startswith("replication_lag: ")
        blind = replicated.connection()
        blind.execute("CREATE ROLE blind; SET ROLE blind")
        assert holds(blind, "replication_lag_bytes") == [
            "replication_lag_bytes: it cannot be read: the role may not see standbys; grant it pg_monitor"
        ]
        blind.close()
    # What a worker does after 25006: of several hosts it takes the one that accepts writes.
    hosts, ports = f"{replicated.folder},{replicated.primary.host}", f"{replicated.primary.port}," * 2
    both = Target.parse(f"postgresql://postgres@/postgres?host={hosts}&port={ports[:-1]}", "the test")
    with connect(both) as first, connect(both, primary=True) as second:
        assert first.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
        assert second.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
    replicated.stop_standby()
    with replicated.connection() as primary:
        until(lambda: not primary.execute("SELECT FROM pg_stat_replication").fetchall())
        assert holds(primary, "replication_lag_bytes", 0) == holds(primary, "replication_lag", 0) == []


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
