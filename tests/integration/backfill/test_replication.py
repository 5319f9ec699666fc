"""A backfill on a primary with a standby: one that lags, one that disappears, one that is named first; a crash."""

import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from schema.backfill import engine
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.cli import run
from schema.errors import ExitCode, MoreWorkError
from schema.pg.connect import connect as connect_as_commands_do
from schema.pg.scratch import ScratchServer
from schema.pg.target import Target
from tests.conftest import Server, load_head
from tests.support.backfill import holds, only, until

TEMPLATE = "head"
# A crash loses what was committed asynchronously.
PRIMARY = {"wal_level": "replica", "synchronous_commit": "on", "max_prepared_transactions": "2"}
STANDBY = {"max_prepared_transactions": "2", "hot_standby": "on", "fsync": "off", "wal_receiver_status_interval": "1"}
LIMIT = 100_000


@dataclass
class Replicated:
    """A primary with a template database at head, and a folder with its standby's data."""

    primary: ScratchServer
    folder: Path

    def start_standby(self) -> None:
        self.primary.installation.start(self.folder, STANDBY, socket=self.folder)
        with self.connection() as primary:
            until(lambda: primary.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").fetchone())

    def stop_standby(self) -> None:
        self.primary.installation.stop(self.folder, mode="immediate")

    def standby(self, dbname: str = "postgres") -> psycopg.Connection:
        return self._connect(self.folder, dbname)

    def connection(self) -> psycopg.Connection:
        return self._connect(self.primary.folder, "postgres")

    def _connect(self, folder: Path, dbname: str) -> psycopg.Connection:
        return psycopg.connect(
            host=str(folder), port=self.primary.port, user="postgres", dbname=dbname, autocommit=True
        )


@pytest.fixture(scope="module")
def replicated(server: Server) -> Iterator[Replicated]:
    with ScratchServer(server.bindir, settings=PRIMARY) as primary:
        primary.create_database(TEMPLATE)
        load_head(host=primary.host, port=primary.port, user=primary.user, dbname=TEMPLATE)
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


@pytest.fixture
def head_database(replicated: Replicated) -> Iterator[str]:
    """In place of the suite's: `cluster` and `connect` work on the primary."""
    url = replicated.primary.create_database(template=TEMPLATE)
    yield url
    dbname = url.partition("?")[0].rpartition("/")[2]
    replicated.primary.drop_database(dbname)


@pytest.fixture
def quick(monkeypatch):
    """The signals are read often."""
    monkeypatch.setattr(engine, "POLL_S", 0.05)


class Disturbed(KernelGroups):
    """The job; within its second batch something happens."""

    def __init__(self, happens):
        self.happens, self.batches = happens, 0

    def write(self, connection, run_id, keys):
        self.batches += 1
        if self.batches == 2:
            self.happens(connection)
        return super().write(connection, run_id, keys)


def sessions(cluster, count):
    for _ in range(count):
        cluster.kernel(cluster.session())


def fall_behind(replicated, primary):
    """Pause the standby's replay, and write more than it may be behind."""
    with replicated.standby() as standby:
        standby.execute("SELECT pg_wal_replay_pause()")
        until(lambda: standby.execute("SELECT pg_get_wal_replay_pause_state() = 'paused'").fetchone()[0])
    write(primary, 5 * LIMIT)


def write(primary, size=1):
    primary.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', %s))", (size,))


def test_lag_in_bytes(replicated):
    with replicated.connection() as primary, replicated.standby() as standby:
        until(lambda: not holds(primary, "replication_lag_bytes", LIMIT))
        fall_behind(replicated, primary)
        [said] = until(lambda: holds(primary, "replication_lag_bytes", LIMIT))
        assert said.startswith("replication_lag_bytes: ")
        assert said.endswith(" MiB, the limit is 0.1 MiB")
        standby.execute("SELECT pg_wal_replay_resume()")
        until(lambda: not holds(primary, "replication_lag_bytes", LIMIT))


def test_lag_in_time(replicated):
    """A standby that replays each commit late; with nothing left to replay it has no lag, whatever it said last."""
    with replicated.connection() as primary, replicated.standby() as standby:
        standby.execute("ALTER SYSTEM SET recovery_min_apply_delay = '300ms'")
        standby.execute("SELECT pg_reload_conf()")
        try:
            said = until(lambda: write(primary) or holds(primary, "replication_lag", 0.2))
            assert re.fullmatch(r"replication_lag: [0-9.]+ s, the limit is 0[.]2 s", said[0])
            caught_up = "SELECT replay_lag > '0.2 s' AND replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication"
            until(lambda: primary.execute(caught_up).fetchone()[0])
            assert holds(primary, "replication_lag", 0.2) == []
        finally:
            standby.execute("ALTER SYSTEM RESET recovery_min_apply_delay")
            standby.execute("SELECT pg_reload_conf()")


def test_role_that_may_not_see_standbys(replicated):
    with replicated.connection() as primary:
        primary.execute("CREATE ROLE blind; SET ROLE blind")
        try:
            for signal in ("replication_lag_bytes", "replication_lag"):
                assert holds(primary, signal) == [
                    f"{signal}: it cannot be read: the role may not see standbys; grant it pg_monitor"
                ]
        finally:
            primary.execute("RESET ROLE; DROP ROLE blind")


@pytest.mark.parametrize("end", ["it replays again", "it disappears"])
def test_run_is_held_by_a_standby_that_falls_behind_until(cluster, replicated, quick, end):
    sessions(cluster, 5)
    with replicated.connection() as primary:
        # It has to replay the test's database first.
        until(lambda: not holds(primary, "replication_lag_bytes", LIMIT))
    said, seen, fell = [], [], threading.Event()
    done = "SELECT sum((totals ->> 'sessions')::int), max(held) FROM backfill_chunks"

    def happens(_):
        with replicated.connection() as primary:
            fall_behind(replicated, primary)
        until(lambda: said)
        fell.set()

    def watch():
        assert fell.wait(30)
        until(lambda: cluster.connection.execute(done).fetchone()[1])
        time.sleep(0.3)
        seen.append(cluster.connection.execute(done).fetchone())
        if end == "it disappears":
            replicated.stop_standby()
        else:
            with replicated.standby() as standby:
                standby.execute("SELECT pg_wal_replay_resume()")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        outcome = cluster.run(
            Disturbed(happens),
            batch_size=1,
            limits=only("replication_lag_bytes", LIMIT),
            watch={"notify": said.append},
        )
    finally:
        watcher.join()
        if end == "it disappears":
            replicated.start_standby()
    # The batch at work was ended, and no other begun.
    [(held, reason)] = seen
    assert held == 2
    assert reason.startswith("replication_lag_bytes: ")
    assert reason.endswith(" MiB, the limit is 0.1 MiB")
    assert said[0].startswith("Held by replication_lag_bytes: ")
    assert said[1] == "Nothing holds it any more"
    assert (outcome.end, outcome.totals["linked"], cluster.failures()) == ("complete", 5, [])


@pytest.fixture
def two_hosts(cluster, replicated) -> str:
    """URL of the cluster, with the standby before the primary."""
    dbname = cluster.connection.info.dbname
    port = replicated.primary.port

    def is_there():
        with suppress(psycopg.OperationalError), replicated.standby(dbname):
            return True

    until(is_there)
    hosts = f"{replicated.folder},{replicated.primary.host}"
    return f"postgresql://postgres@/{dbname}?host={hosts}&port={port},{port}"


def test_of_two_hosts_the_one_that_takes_writes_is_worked_on(cluster, two_hosts, capsys):
    with connect_as_commands_do(Target.parse(two_hosts, "the test")) as first:
        assert first.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
    sessions(cluster, 4)

    def schemactl(*words):
        return run(["--url", two_hosts, "backfill", *words])

    assert schemactl("--dry-run") == ExitCode.OK
    assert schemactl("--batch-size", "1", "--max-time", "0") == ExitCode.MORE_WORK
    assert schemactl("pause") == ExitCode.OK
    assert schemactl("resume") == ExitCode.OK
    assert schemactl() == ExitCode.OK
    assert cluster.failures() == []
    # A standby alone is no place for it.
    assert run(["--url", two_hosts.replace(",", "").replace(cluster.connection.info.host, "", 1), "backfill"]) == 1


def test_connection_that_takes_no_writes_any_more_is_left_for_the_primary(cluster, two_hosts):
    sessions(cluster, 6)
    # As after a failover behind an address that stays; this batch is still let through.
    job = Disturbed(lambda connection: connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
    opened = []

    def connect():
        opened.append(connect_as_commands_do(Target.parse(two_hosts, "the test"), autocommit=True, primary=True))
        return opened[-1]

    object.__setattr__(cluster, "connect", connect)
    outcome = cluster.run(job, batch_size=2)
    assert (outcome.end, outcome.parents, cluster.failures()) == ("complete", 6, [])
    # One to watch, one to work, and one to work after 25006.
    assert len(opened) == 3
    assert all(connection.closed for connection in opened)


def test_prepared_transaction_that_is_older_than_the_run_is_waited_for(cluster, connect):
    session = cluster.session()
    with connect() as application:
        application.execute("BEGIN")
        application.execute("INSERT INTO kernels (session_id, cluster_role) VALUES (%s, 'main')", (session,))
        application.execute("PREPARE TRANSACTION 'of the test'")
    try:
        with pytest.raises(MoreWorkError, match=r"older than the run go on: prepared transaction 'of the test'$"):
            cluster.run(older_wait=timedelta(milliseconds=100))
    finally:
        cluster.connection.execute("COMMIT PREPARED 'of the test'")
    outcome = cluster.run()
    assert (outcome.end, outcome.totals["linked"]) == ("complete", 1)


def test_server_that_crashes_mid_run(cluster, replicated, connect, quick):
    """`pg_ctl restart -m immediate` within a batch: the run goes on by itself, and says what it waited for."""
    sessions(cluster, 6)
    said = []

    def happens(_):
        installation, folder = replicated.primary.installation, replicated.primary.folder
        done = installation.run("pg_ctl", "restart", "-w", "-m", "immediate", "-l", "server.log", folder=folder)
        assert done.returncode == 0, done.stdout

    job = Disturbed(happens)
    outcome = cluster.run(job, batch_size=2, limits=only("oldest_xmin"), attempts=2, watch={"notify": said.append})
    object.__setattr__(cluster, "connection", connect())
    assert (outcome.end, outcome.parents, cluster.failures()) == ("complete", 6, [])
    # The batch before does not wait for the disk, and may be lost with it.
    assert job.batches in {4, 5}
    assert said[:2] == [
        "Held by connection: the server cannot be reached to read the signals",
        "Nothing holds it any more",
    ]
