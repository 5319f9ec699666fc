"""The backfill against an application, against itself, and against being killed: two connections, or two processes."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.process import BaseProcess

import psycopg
import pytest
from psycopg import sql

from schema.backfill import claims, ledger, rehearsal, survey
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.settings import Settings
from schema.errors import ExitCode, MoreWorkError
from schema.models.status import RunState
from tests.support.backfill import start

PATIENCE_S = 30


@pytest.fixture
def application(connect):
    """The application's connection; its transactions are opened by BEGIN."""
    return connect()


@pytest.fixture
def backfill(cluster, connect):
    """Starts a run in a thread; gives its future."""
    with ThreadPoolExecutor(2) as pool:
        yield lambda *job, **settings: pool.submit(cluster.run, *job, **settings)


def wait_until_blocked(connection):
    """Wait until a backend of this database waits for another."""
    deadline = time.monotonic() + PATIENCE_S
    while not connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
    ).fetchone()[0]:
        assert time.monotonic() < deadline, "the backfill never waited for the application"
        time.sleep(0.005)


def is_linked_to(cluster, kernel):
    return cluster.connection.execute("SELECT kernel_group_id FROM kernels WHERE id = %s", (kernel,)).fetchone()[0]


def insert_group(connection, session, role="main"):
    return connection.execute(
        "INSERT INTO kernel_groups (session_id, role, shmem) VALUES (%s, %s, 7) RETURNING id", (session, role)
    ).fetchone()[0]


def insert_kernel(connection, session):
    return connection.execute(
        "INSERT INTO kernels (session_id, cluster_role) VALUES (%s, 'main') RETURNING id", (session,)
    ).fetchone()[0]


def test_application_commits_the_same_group_after_our_snapshot(cluster, application, backfill):
    """At the first attempt: a batch is READ COMMITTED, whatever the database's default is."""
    name = sql.Identifier(cluster.connection.info.dbname)
    cluster.connection.execute(
        sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'").format(name)
    )
    session = cluster.session(environ={"A": "1"})
    kernel = cluster.kernel(session, environ=["bad"], allocations={"cpu": "1"})
    application.execute("BEGIN")
    group = insert_group(application, session)
    future = backfill(attempts=1)
    wait_until_blocked(cluster.connection)
    # The kernels are locked before anything is inserted.
    with pytest.raises(psycopg.errors.LockNotAvailable):
        cluster.connection.execute("SELECT FROM kernels FOR NO KEY UPDATE NOWAIT")
    application.execute("COMMIT")
    totals = future.result(PATIENCE_S).totals
    assert (totals["groups"], totals["linked"], totals["rejects"]) == (0, 1, 0)
    assert is_linked_to(cluster, kernel) == group
    [found] = cluster.groups(session)
    assert (found["shmem"], found["slots"], found["environ"]) == (7, {}, {})
    assert cluster.rejects(session) == []


def test_a_batch_does_not_wait_for_the_disk_and_the_end_of_a_run_does(cluster):
    name = sql.Identifier(cluster.connection.info.dbname)
    cluster.connection.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = on").format(name))
    seen = []

    class Job(KernelGroups):
        def write(self, connection, run_id, keys):
            written = super().write(connection, run_id, keys)
            row = "SELECT current_setting('synchronous_commit'), pg_current_wal_insert_lsn()::text"
            seen.append(connection.execute(row).fetchone())
            return written

    for _ in range(3):
        cluster.kernel(cluster.session())
    assert cluster.run(Job(), batch_size=1).totals["groups"] == 3
    assert [setting for setting, _ in seen] == ["off"] * 3
    # What a batch wrote is older than the run's end, and so is on the disk with it.
    flushed = "SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn"
    assert cluster.connection.execute(flushed, [seen[-1][1]]).fetchone() == (True,)


def test_application_rolls_the_same_group_back(cluster, application, backfill):
    session = cluster.session()
    kernel = cluster.kernel(session, allocations={"cpu": "1"})
    application.execute("BEGIN")
    insert_group(application, session)
    future = backfill()
    wait_until_blocked(cluster.connection)
    application.execute("ROLLBACK")
    assert future.result(PATIENCE_S).totals["groups"] == 1
    [found] = cluster.groups(session)
    assert (found["shmem"], found["slots"], found["kernels"]) == (None, {"cpu": 1}, 1)
    assert is_linked_to(cluster, kernel)


def test_application_links_the_same_kernel(cluster, application, backfill):
    session = cluster.session()
    kernel, other = cluster.kernel(session), cluster.kernel(session, cluster_idx=1)
    application.execute("BEGIN")
    group = insert_group(application, session)
    application.execute("UPDATE kernels SET kernel_group_id = %s WHERE id = %s", (group, kernel))
    future = backfill()
    wait_until_blocked(cluster.connection)
    application.execute("COMMIT")
    totals = future.result(PATIENCE_S).totals
    assert (totals["groups"], totals["linked"]) == (0, 1)
    assert is_linked_to(cluster, kernel) == is_linked_to(cluster, other) == group


def test_application_wins_a_deadlock(cluster, application, backfill):
    """It holds the group that we insert, and then wants the kernel that we hold: we give up first, and try again."""
    session = cluster.session()
    kernel = cluster.kernel(session)
    application.execute("BEGIN")
    group = insert_group(application, session)
    future = backfill()
    # The server looks for a deadlock once, a second after a wait began: the application begins to wait after that.
    wait_until_blocked(cluster.connection)
    time.sleep(1.2)
    wait_until_blocked(cluster.connection)
    application.execute("UPDATE kernels SET kernel_group_id = %s WHERE id = %s", (group, kernel))
    application.execute("COMMIT")
    totals = future.result(PATIENCE_S).totals
    assert (totals["sessions"], totals["groups"], totals["linked"]) == (1, 0, 0)
    assert is_linked_to(cluster, kernel) == group


def test_session_deleted_meanwhile(cluster, application, backfill):
    gone, stays = cluster.session(), cluster.session()
    cluster.kernel(gone)
    cluster.kernel(stays)
    application.execute("BEGIN")
    application.execute("DELETE FROM kernels WHERE session_id = %s", (gone,))
    application.execute("DELETE FROM sessions WHERE id = %s", (gone,))
    future = backfill()
    wait_until_blocked(cluster.connection)
    application.execute("COMMIT")
    totals = future.result(PATIENCE_S).totals
    assert (totals["sessions"], totals["groups"]) == (1, 1)
    assert cluster.groups(stays)[0]["kernels"] == 1


def test_the_application_goes_on_with_the_sessions_of_an_open_batch(cluster, connect, application):
    session = cluster.session()
    cluster.kernel(session)
    application.execute("SET lock_timeout = '500ms'")

    seen = []

    class Job(KernelGroups):
        def write(self, connection, run_id, keys):
            written = super().write(connection, run_id, keys)
            if not seen:
                seen.append(written["linked"])
                application.execute("UPDATE sessions SET status = 'RUNNING' WHERE id = %s", (session,))
                cluster.insert("kernels", session_id=session, cluster_role="sub")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    application.execute("DELETE FROM sessions WHERE id = %s", (session,))
            return written

    # The kernel that came behind the batch is the sweep's.
    assert (cluster.run(Job()).totals["linked"], seen) == (2, [1])
    assert cluster.failures() == []


def test_locked_kernel_is_waited_for(cluster, application, backfill):
    session = cluster.session()
    kernel = cluster.kernel(session)
    application.execute("BEGIN")
    application.execute("UPDATE kernels SET status = 'RUNNING' WHERE id = %s", (kernel,))
    future = backfill(lock_timeout=timedelta(milliseconds=100))
    wait_until_blocked(cluster.connection)
    time.sleep(0.3)  # Longer than the lock timeout: at least one attempt has failed by now.
    application.execute("COMMIT")
    assert future.result(PATIENCE_S).totals["linked"] == 1


def test_kernel_that_moved_while_its_lock_was_waited_for_is_linked_at_once(cluster, application, backfill):
    session = cluster.session()
    kernel = cluster.kernel(session)
    application.execute("BEGIN")
    application.execute("UPDATE kernels SET status = 'RUNNING' WHERE id = %s", (kernel,))
    future = backfill(lock_timeout=timedelta(seconds=PATIENCE_S), attempts=1)
    wait_until_blocked(cluster.connection)
    application.execute("COMMIT")
    assert future.result(PATIENCE_S).totals["linked"] == 1
    assert is_linked_to(cluster, kernel)
    assert cluster.connection.execute("SELECT status FROM kernels").fetchall() == [("RUNNING",)]


def test_kernel_locked_throughout_keeps_only_its_session_back(cluster, application):
    sessions = sorted(cluster.session() for _ in range(8))
    kernels = [cluster.kernel(session) for session in sessions]
    application.execute("BEGIN")
    application.execute("UPDATE kernels SET status = 'RUNNING' WHERE id = %s", (kernels[3],))
    settings = {"batch_size": 8, "lock_timeout": timedelta(milliseconds=20), "attempts": 2}
    with pytest.raises(MoreWorkError, match=f"older than the run go on: pid {application.info.backend_pid}$") as caught:
        cluster.run(**{**settings, "older_wait": timedelta(milliseconds=200)})
    assert caught.value.exit_code == ExitCode.MORE_WORK
    assert [bool(is_linked_to(cluster, kernel)) for kernel in kernels] == [place != 3 for place in range(8)]
    assert cluster.connection.execute(
        "SELECT phase, c.totals -> 'deferred' FROM backfill_runs r JOIN backfill_chunks c ON c.run_id = r.id"
    ).fetchall() == [("batches", 1)]
    # A transaction that is younger than the run, which the sweep does not wait for but in vain.
    application.execute("COMMIT; BEGIN")
    application.execute("UPDATE kernels SET status = 'RUNNING' WHERE id = %s", (kernels[3],))
    with pytest.raises(psycopg.errors.LockNotAvailable):
        cluster.run(**settings)
    [chunk] = claims.chunks(cluster.connection, ledger.latest(cluster.connection, "kernel_groups").id)
    assert (chunk.state, chunk.owner, chunk.phase) == ("pending", None, "sweep")
    assert cluster.connection.execute(
        "SELECT last_sqlstate, last_error FROM backfill_chunks JOIN backfill_runs ON id = run_id"
    ).fetchone() == ("55P03", "PostgreSQL says: canceling statement due to lock timeout (SQLSTATE 55P03)")
    application.execute("ROLLBACK")
    outcome = cluster.run(**settings)
    assert (outcome.end, outcome.totals["linked"]) == ("complete", 8)
    assert cluster.failures() == []


def test_transaction_that_has_only_begun_is_waited_for(cluster, application):
    """It has written nothing yet, so it has no transaction id; what it writes may come behind the cursor."""
    session = cluster.session()
    application.execute("BEGIN")
    application.execute("SELECT")
    with pytest.raises(MoreWorkError, match=f"older than the run go on: pid {application.info.backend_pid}$"):
        cluster.run(older_wait=timedelta(milliseconds=100))
    kernel = insert_kernel(application, session)
    application.execute("COMMIT")
    assert cluster.run().end == "complete"
    assert is_linked_to(cluster, kernel)


def test_transaction_of_another_role_is_known_by_its_id(cluster, application, operator):
    """A role that may not see other roles' times sees their locks."""
    operator.change("REVOKE pg_monitor FROM {}")
    session = cluster.session()
    application.execute("BEGIN")
    kernel = insert_kernel(application, session)
    object.__setattr__(cluster, "connect", operator.connect)
    settings = {"limits": {"oldest_xmin": None}}
    with pytest.raises(MoreWorkError, match=f"older than the run go on: pid {application.info.backend_pid}$"):
        cluster.run(**settings, older_wait=timedelta(milliseconds=100))
    application.execute("COMMIT")
    assert cluster.run(**settings).end == "complete"
    assert is_linked_to(cluster, kernel)


def test_no_batch_scans_the_groups_of_those_before(cluster):
    """Nor do the checks of its foreign keys, whose plans are made by a connection's first batch and kept."""
    cluster.connection.execute(
        "WITH s AS (INSERT INTO sessions (name) SELECT n FROM generate_series(1, 400) AS n RETURNING id),"
        " k AS (INSERT INTO kernels (session_id, environ) SELECT id, '{A=1,B=2}' FROM s RETURNING id)"
        " INSERT INTO resource_allocations (kernel_id, slot_name, requested) SELECT id, 'cpu', 1 FROM k"
    )
    counted = "SELECT n_tup_ins, seq_scan FROM pg_stat_user_tables WHERE relname = 'kernel_groups'"
    inserted, scanned = cluster.connection.execute(counted).fetchone()
    assert cluster.run(batch_size=40).totals["groups"] == 400
    deadline = time.monotonic() + PATIENCE_S
    while (found := cluster.connection.execute(counted).fetchone())[0] < inserted + 400:
        assert time.monotonic() < deadline, "the server never counted the inserts"
        time.sleep(0.01)
    assert found == (inserted + 400, scanned)


def test_image_deleted_between_read_and_insert_is_read_again(cluster, connect):
    """A foreign key whose target went away fails the batch once; the second reading finds what is there now."""
    session, other = sorted(cluster.session() for _ in range(2))
    kernel = cluster.kernel(session)
    cluster.kernel(other)
    calls = []

    class Job(KernelGroups):
        def write(self, connection, run_id, keys):
            calls.append(keys)
            if len(calls) == 1:
                connection.execute(
                    "INSERT INTO kernel_groups (session_id, role, image_id) VALUES (%s, 'main', gen_random_uuid())",
                    (session,),
                )
            return super().write(connection, run_id, keys)

    assert cluster.run(Job(), batch_size=2).totals["groups"] == 2
    assert calls == [[session, other], [session, other]]
    assert is_linked_to(cluster, kernel)


def test_another_host_joins_the_run(cluster, application, backfill):
    """Two chunks: while the first is in a batch that waits, the second call does the other, and waits for the end."""
    sessions = sorted(cluster.session() for _ in range(4))
    kernels = [cluster.kernel(session) for session in sessions]
    application.execute("BEGIN")
    application.execute("UPDATE kernels SET status = 'RUNNING' WHERE id = %s", (kernels[0],))
    first = backfill(chunk_size=2)
    wait_until_blocked(cluster.connection)
    second = backfill()
    deadline = time.monotonic() + PATIENCE_S
    while not is_linked_to(cluster, kernels[3]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not is_linked_to(cluster, kernels[0])
    application.execute("COMMIT")
    outcomes = [future.result(PATIENCE_S) for future in (first, second)]
    assert {(outcome.end, outcome.totals["linked"]) for outcome in outcomes} == {("complete", 4)}
    assert sorted(outcome.parents for outcome in outcomes) == [2, 2]
    assert cluster.connection.execute("SELECT count(*) FROM backfill_runs").fetchone() == (1,)


class Chased(KernelGroups):
    """The job, beside a writer that adds more sessions than each of its statements takes; their ids grow."""

    def __init__(self, cluster, *, grouped):
        self.cluster, self.grouped, self.added = cluster, grouped, []

    def write(self, connection, run_id, keys):
        self.add(len(keys) + 1)
        return super().write(connection, run_id, keys)

    def verify(self, connection, keys):
        self.add(len(keys) + 1)
        return super().verify(connection, keys)

    def add(self, count):
        for _ in range(count):
            session = self.cluster.session()
            group = self.cluster.group(session) if self.grouped else None
            self.cluster.kernel(session, kernel_group_id=group)
            self.added.append(session)
        assert len(self.added) < 1000, "the run goes after what is written while it runs, and never ends"


@pytest.mark.parametrize("grouped", [True, False])
def test_writer_that_is_faster_than_the_batches_is_not_chased(cluster, grouped):
    """Each phase ends at what there was when it came to the open range; the next phase has what came behind."""
    before = [cluster.session() for _ in range(8)]
    for session in before:
        cluster.kernel(session)
    job = Chased(cluster, grouped=grouped)
    swept = []

    def notify(message):
        if message.startswith("Sweeping"):
            swept.extend(job.added)

    outcome = cluster.run(job, batch_size=4, watch={"notify": notify})
    assert (outcome.end, outcome.totals["sessions"]) == ("complete", 8)
    unlinked = cluster.connection.execute("SELECT session_id FROM kernels WHERE kernel_group_id IS NULL").fetchall()
    assert len(swept) >= 10
    assert not {session for (session,) in unlinked} & {*before, *swept}
    assert cluster.run().end == "complete"
    assert cluster.failures() == []


def test_dry_run_and_survey_chase_no_writer(cluster, connect, monkeypatch):
    monkeypatch.setattr(survey, "RANGE_SIZE", 4)
    for _ in range(8):
        cluster.kernel(cluster.session())
    job = Chased(cluster, grouped=False)
    assert rehearsal.dry_run(connect(), job, Settings(batch_size=4)).parents == 8
    assert len(job.added) == 10
    assert survey.verify(connect(), job).counts["sessions"] == 18


def test_two_begin_at_once(cluster, connect):
    barrier = threading.Barrier(2)

    def begin():
        connection = connect()
        barrier.wait(PATIENCE_S)
        return ledger.begin(connection, "kernel_groups", {}).id

    with ThreadPoolExecutor(2) as pool:
        first, second = [future.result(PATIENCE_S) for future in (pool.submit(begin), pool.submit(begin))]
    assert first == second
    assert cluster.connection.execute("SELECT count(*) FROM backfill_chunks").fetchone() == (1,)


def test_worker_whose_lease_was_taken_over_commits_nothing_more(cluster, connect):
    for _ in range(6):
        cluster.kernel(cluster.session(), environ=["bad"])
    taken, said = [], []

    def frozen(_):
        if not taken:
            taken.append(None)
            cluster.connection.execute("UPDATE backfill_chunks SET lease_expires_at = now() - interval '1 s'")
            taken[0] = cluster.run(batch_size=2)

    outcome = cluster.run(batch_size=2, watch={"advance": frozen, "notify": said.append})
    assert any("was taken over by another worker" in text for text in said)
    assert (outcome.parents, taken[0].parents) == (2, 4)
    assert outcome.totals["sessions"] == outcome.totals["groups"] == outcome.totals["rejects"] == 6
    assert cluster.connection.execute("SELECT count(*) FROM backfill_rejects").fetchone() == (6,)
    assert cluster.failures() == []


def test_pause_stops_between_batches_and_resume_goes_on(cluster):
    for _ in range(6):
        cluster.kernel(cluster.session())

    def pause(_):
        ledger.steer(cluster.connection, "kernel_groups", RunState.PAUSED)

    outcome = cluster.run(batch_size=2, watch={"advance": pause})
    assert (outcome.end, outcome.totals["sessions"]) == ("paused", 2)
    with pytest.raises(MoreWorkError, match="paused"):
        cluster.run()
    ledger.steer(cluster.connection, "kernel_groups", RunState.RUNNING)
    # Another size, as the operator wants it.
    assert cluster.run(batch_size=3).totals["sessions"] == 6


def test_dry_run_writes_nothing_and_counts_what_a_run_writes(cluster, cases):
    for case in cases:
        cluster.load(case)
    before = cluster.everything()
    dry = rehearsal.dry_run(cluster.connection, KernelGroups(), Settings(batch_size=4))
    assert cluster.everything() == before
    assert cluster.connection.execute("SELECT count(*) FROM backfill_runs").fetchone() == (0,)
    assert dry.totals == cluster.run().totals


@contextmanager
def command(cluster, *options):
    process = subprocess.Popen(
        [sys.executable, "-m", "schema", "--url", cluster.url, "--format", "json", "backfill", "--duty=100", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def many(cluster, cases):
    """Enough sessions for a run of many small batches; what an undisturbed run writes for them."""
    for _ in range(8):
        for case in cases:
            cluster.load(case)
    cluster.run()
    undisturbed = cluster.everything()
    cluster.connection.execute("UPDATE kernels SET kernel_group_id = NULL")
    cluster.connection.execute(
        "TRUNCATE kernel_group_environ, kernel_group_resource_slots, backfill_rejects, backfill_chunks, backfill_runs"
    )
    cluster.connection.execute("DELETE FROM kernel_groups")
    return undisturbed


def is_running(process):
    return process.is_alive() if isinstance(process, BaseProcess) else process.poll() is None


def wait_for_batches(cluster, process, more):
    """Wait until `more` further sessions are done, or the process has ended."""
    statement = "SELECT coalesce(sum((totals ->> 'sessions')::int), 0) FROM backfill_chunks"
    start = cluster.connection.execute(statement).fetchone()[0]
    deadline = time.monotonic() + PATIENCE_S
    while is_running(process) and cluster.connection.execute(statement).fetchone()[0] < start + more:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_killed_again_and_again_equals_an_undisturbed_run(cluster, many):
    generator = random.Random(20261130)
    # Longer than the test's patience: a dead process of this host is known by its number.
    lease = timedelta(minutes=10)
    for _ in range(20):
        process = start(cluster.url, batch_size=2, chunk_size=8, workers=2, lease=lease)
        wait_for_batches(cluster, process, generator.randint(1, 4))
        time.sleep(generator.uniform(0, 0.004))
        process.kill()
        process.join(PATIENCE_S)
        assert process.exitcode == -signal.SIGKILL
    outcome = cluster.run(max_time=timedelta(seconds=PATIENCE_S))
    assert (outcome.end, cluster.failures()) == ("complete", [])
    assert outcome.totals["sessions"] == outcome.run.settings["expected"]
    assert cluster.everything() == many
    assert cluster.connection.execute("SELECT count(*), min(state) FROM backfill_runs").fetchone() == (1, "complete")


def test_frozen_past_its_lease_and_thawed(cluster, many):
    """A process stopped between or within batches loses its chunk to another; thawed, it commits nothing there."""
    lease = timedelta(seconds=0.5)
    first = start(cluster.url, batch_size=2, lease=lease)
    try:
        wait_for_batches(cluster, first, 4)
        os.kill(first.pid, signal.SIGSTOP)
        [fence] = cluster.connection.execute("SELECT fence FROM backfill_chunks").fetchone()
        outcome = cluster.run(batch_size=5, lease=lease)
        assert outcome.end == "complete"
        assert cluster.connection.execute("SELECT fence > %s FROM backfill_chunks", (fence,)).fetchone() == (True,)
        before = cluster.everything()
        assert before == many
        os.kill(first.pid, signal.SIGCONT)
        first.join(PATIENCE_S)
        assert first.exitcode == 0
        assert cluster.everything() == before
    finally:
        first.kill()
    assert cluster.connection.execute("SELECT sum((totals ->> 'sessions')::int) FROM backfill_chunks").fetchone() == (
        cluster.connection.execute("SELECT count(*) FROM sessions").fetchone()
    )


def test_frozen_in_the_middle_of_a_transaction(cluster, many, application):
    """Its locks, on the chunk too, would stay for as long as it is frozen: the server ends its transaction."""
    lease = timedelta(seconds=0.5)
    application.execute("BEGIN")
    application.execute("SELECT FROM kernels FOR UPDATE")
    first = start(cluster.url, batch_size=2, lease=lease)
    try:
        wait_until_blocked(cluster.connection)
        os.kill(first.pid, signal.SIGSTOP)
        application.execute("ROLLBACK")
        outcome = cluster.run(lease=lease, max_time=timedelta(seconds=PATIENCE_S))
        assert (outcome.end, outcome.parents) == ("complete", outcome.totals["sessions"])
        os.kill(first.pid, signal.SIGCONT)
        first.join(PATIENCE_S)
        assert first.exitcode == 0
    finally:
        first.kill()
    assert cluster.everything() == many


def test_interrupted_gives_its_claim_back(cluster, many):
    with command(cluster, "--batch-size", "2") as process:
        wait_for_batches(cluster, process, 6)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "Every batch that was committed stays" in err
    assert "Traceback" not in err
    [chunk] = claims.chunks(cluster.connection, ledger.latest(cluster.connection, "kernel_groups").id)
    assert (chunk.state, chunk.owner) == ("pending", None)
    with command(cluster) as process:
        assert process.wait(PATIENCE_S) == ExitCode.REJECTS
    assert cluster.everything() == many


def test_interrupted_twice_aborts_the_batch_at_hand(cluster, many, application):
    application.execute("BEGIN")
    application.execute("SELECT FROM kernels FOR UPDATE")
    with command(cluster) as process:
        wait_until_blocked(cluster.connection)
        process.send_signal(signal.SIGINT)
        while "Finishing the batch at hand; Ctrl-C again aborts it." not in process.stderr.readline():
            assert is_running(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "the one at work was rolled back. `schemactl backfill` goes on from there." in err
    application.execute("ROLLBACK")
    assert cluster.run().end == "complete"
    assert cluster.everything() == many


def test_two_commands_at_once_write_everything_once(cluster, many):
    with command(cluster, "--batch-size", "2") as first, command(cluster, "--batch-size", "2") as second:
        codes = {first.wait(PATIENCE_S), second.wait(PATIENCE_S)}
    assert codes == {ExitCode.REJECTS}
    assert cluster.everything() == many
