"""What the engine does about batches that fail: every class of SQLSTATE, broken connections, rows at fault."""

import random
import socket
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from schema.backfill import claims, engine, ledger, report
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.settings import Settings
from schema.backfill.stop import Stop
from schema.backfill.throttle.monitor import Monitor
from schema.backfill.worker import CircuitOpenError
from schema.errors import DatabaseError, ExitCode
from tests.support.backfill import until


class Spoiled(KernelGroups):
    """The job, with something done before its write, told how often it was called and for how many sessions."""

    def __init__(self, spoil):
        self.spoil, self.sizes = spoil, []

    def write(self, connection, run_id, keys):
        self.sizes.append(len(keys))
        self.spoil(connection, len(self.sizes), keys)
        return super().write(connection, run_id, keys)


def sessions(cluster, count, **kernel):
    made = sorted(cluster.session() for _ in range(count))
    for session in made:
        cluster.kernel(session, **kernel)
    return made


def test_terminated_backend_mid_batch(cluster):
    sessions(cluster, 6)

    def spoil(connection, call, _):
        if call == 2:
            cluster.connection.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))

    job = Spoiled(spoil)
    outcome = cluster.run(job, batch_size=2)
    assert (outcome.end, outcome.parents, outcome.totals["groups"]) == ("complete", 6, 6)
    assert job.sizes == [2, 2, 2, 2]
    assert cluster.failures() == []


@pytest.mark.parametrize("committed", [True, False])
def test_commit_of_unknown_outcome_is_settled_by_the_cursor(cluster, server, committed):
    """The answer to a COMMIT is lost on the way, after or before the server has it."""
    sessions(cluster, 6)
    with proxied(server, cut_at=2, committed=committed) as (host, cuts):
        dbname = cluster.connection.info.dbname

        def connect():
            return psycopg.connect(
                host=host, port=server.port, user=server.user, dbname=dbname, autocommit=True, prepare_threshold=None
            )

        told = []
        object.__setattr__(cluster, "connect", connect)
        outcome = cluster.run(batch_size=2, watch={"advance": told.append})
    assert cuts == [committed]
    assert (outcome.end, outcome.parents, outcome.totals["sessions"], outcome.totals["linked"]) == ("complete", 6, 6, 6)
    # The batch whose answer was lost is told with the next when it was committed, and is done again when not.
    assert told == ([2, 4] if committed else [2, 2, 2])
    assert cluster.failures() == []


@contextmanager
def proxied(server, *, cut_at, committed):
    """A socket in front of the server that cuts the connection at the COMMIT of a given batch."""
    cuts, batches, lock = [], [0], threading.Lock()
    with tempfile.TemporaryDirectory(prefix="cut") as folder:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(Path(folder) / f".s.PGSQL.{server.port}"))
        listener.listen()

        def serve(client):
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(str(Path(server.host) / f".s.PGSQL.{server.port}"))
            fated = threading.Event()

            def back():
                while data := receive(upstream):
                    if not fated.is_set():
                        client.sendall(data)

            answers = threading.Thread(target=back, daemon=True)
            answers.start()
            moved = False
            while data := receive(client):
                moved = moved or b"SET cursor = coalesce" in data
                if moved and b"COMMIT" in data:
                    moved = False
                    with lock:
                        batches[0] += 1
                        cut = batches[0] == cut_at
                    if cut:
                        cuts.append(committed)
                        fated.set()
                        if committed:
                            upstream.sendall(data)
                            time.sleep(0.1)
                        break
                upstream.sendall(data)
            # A close alone would not end it while the other thread reads from it.
            for end in (client, upstream):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

        def accept():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield folder, cuts
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def receive(end):
    try:
        return end.recv(65536)
    except OSError:
        return b""


def test_poison_session_is_set_aside_and_nothing_else(cluster):
    made = sessions(cluster, 33)
    cluster.connection.execute(f"ALTER TABLE kernel_groups ADD CONSTRAINT c CHECK (session_id <> '{made[20]}')")
    tries = []
    outcome = cluster.run(
        Spoiled(lambda _, __, keys: tries.append(len(keys)) if made[20] in keys else None), batch_size=33
    )
    assert outcome.end == "complete"
    # Halved down to it, and tried once more to set it aside; the sweep and the verification leave it alone.
    assert (tries[0], tries[-1], tries.count(1)) == (33, 1, 2)
    totals = outcome.totals
    assert (totals["sessions"], totals["groups"], totals["rejects"], totals["quarantined"]) == (33, 32, 1, 1)
    [reject] = report.rejects(cluster.connection, "kernel_groups", show_values=True)
    assert (reject.parent_key, reject.kernel_id, reject.field, reject.raw) == (str(made[20]), None, "sessions", None)
    assert reject.reason == (
        'PostgreSQL says: new row for relation "kernel_groups" violates check constraint "c" (SQLSTATE 23514)'
    )
    assert [str(finding.key) for finding in cluster.failures()] == [str(made[20])]
    # Once the cause is gone, the next run has it.
    cluster.connection.execute("ALTER TABLE kernel_groups DROP CONSTRAINT c")
    assert cluster.run().totals["groups"] == 1
    assert cluster.failures() == []


def test_poison_that_only_the_commit_would_tell(cluster):
    made = sessions(cluster, 3)
    cluster.connection.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'not this one' USING ERRCODE = 'check_violation'; END $$;"
        " CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON kernel_groups DEFERRABLE INITIALLY DEFERRED"
        f" FOR EACH ROW WHEN (NEW.session_id = '{made[1]}') EXECUTE FUNCTION refuse()"
    )
    outcome = cluster.run()
    assert (outcome.end, outcome.totals["groups"], outcome.totals["quarantined"]) == ("complete", 2, 1)
    [reject] = report.rejects(cluster.connection, "kernel_groups")
    assert (reject.parent_key, reject.reason) == (str(made[1]), "PostgreSQL says: not this one (SQLSTATE 23514)")


def test_signals_that_cannot_be_read_are_not_a_lost_connection(cluster, monkeypatch):
    sessions(cluster, 2)
    said = []
    real = Monitor.poll

    def poll(*arguments):
        monkeypatch.setattr(Monitor, "poll", real)
        raise psycopg.errors.UndefinedColumn("no such column")

    monkeypatch.setattr(Monitor, "poll", poll)
    cluster.run(watch={"notify": said.append})
    assert said[:2] == [
        "Held by signals: they cannot be read: PostgreSQL says: no such column (SQLSTATE 42703)",
        "Nothing holds it any more",
    ]


def test_values_stay_out_of_a_reject(cluster):
    sessions(cluster, 2)

    def spoil(connection, call, keys):
        connection.execute("SELECT 'hunter2'::int")

    outcome = cluster.run(Spoiled(spoil))
    assert outcome.totals["quarantined"] == 2
    assert "hunter2" not in repr(report.rejects(cluster.connection, "kernel_groups", show_values=True))


def test_circuit_opens_when_everything_is_poison(cluster):
    sessions(cluster, 70)
    cluster.connection.execute("ALTER TABLE kernel_groups ADD CONSTRAINT c CHECK (role <> 'main')")
    with pytest.raises(CircuitOpenError, match="more than half of the last 50 batches failed") as caught:
        cluster.run()
    assert caught.value.exit_code == ExitCode.FAILED
    assert sum(report.reject_counts(cluster.connection, "kernel_groups").values()) == 50
    assert ledger.latest(cluster.connection, "kernel_groups").state == "running"


def test_run_that_is_deleted_meanwhile(cluster):
    sessions(cluster, 4)

    def delete(_):
        cluster.connection.execute("DELETE FROM backfill_runs")

    with pytest.raises(DatabaseError, match=r"run .* is gone from backfill_runs") as caught:
        cluster.run(batch_size=2, watch={"advance": delete})
    assert "begins another run" in caught.value.hint
    assert cluster.run().totals["linked"] == 2


def test_error_for_good_stops_the_other_workers(cluster):
    sessions(cluster, 60)

    def spoil(connection, call, keys):
        connection.execute("SELECT pg_sleep(0.02)")
        if call == 3:
            connection.execute("SELECT FROM no_such_table")

    job = Spoiled(spoil)
    with pytest.raises(psycopg.errors.UndefinedTable):
        cluster.run(job, batch_size=1, chunk_size=30, workers=2)
    assert len(job.sizes) < 10


def test_batch_that_takes_too_long_is_halved(cluster):
    sessions(cluster, 8)

    def spoil(connection, call, keys):
        connection.execute("SELECT pg_sleep(%s)", (0.1 * len(keys),))

    job = Spoiled(spoil)
    outcome = cluster.run(job, batch_size=8, statement_timeout=timedelta(milliseconds=300))
    assert (outcome.end, outcome.totals["linked"]) == ("complete", 8)
    assert job.sizes[:3] == [8, 4, 2]


def test_writer_that_locks_in_the_opposite_order(cluster, connect):
    """Sessions from the last to the first, and kernels too: whoever is the victim, both get through."""
    made = sessions(cluster, 40)
    done = threading.Event()
    updates = []

    def write():
        with connect() as application:
            application.execute("SET deadlock_timeout = '20ms'")
            while not done.is_set():
                pair = sorted(random.sample(made, 2), reverse=True)
                try:
                    with application.transaction():
                        for session in pair:
                            application.execute(
                                "UPDATE kernels SET status = 'RUNNING' WHERE session_id = %s", (session,)
                            )
                            time.sleep(0.003)
                    updates.append(pair)
                except psycopg.errors.DeadlockDetected:
                    pass

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        until(lambda: updates)
        outcome = cluster.run(batch_size=20, lock_timeout=timedelta(milliseconds=100), older_wait=timedelta(seconds=5))
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert (outcome.end, outcome.totals["linked"]) == ("complete", 40)
    assert cluster.failures() == []


def test_application_inserts_sessions_and_groups_all_through(cluster, connect):
    """New sessions with and without groups, and groups of old sessions, while the backfill runs."""
    made = sessions(cluster, 60, allocations={"cpu": "1"})
    done = threading.Event()
    fresh = []

    def write():
        generator = random.Random(7)
        with connect() as application:
            while not done.is_set():
                with application.transaction():
                    [session] = application.execute("INSERT INTO sessions DEFAULT VALUES RETURNING id").fetchone()
                    group = None
                    if generator.random() < 0.5:
                        [group] = application.execute(
                            "INSERT INTO kernel_groups (session_id, role) VALUES (%s, 'main') RETURNING id", (session,)
                        ).fetchone()
                    application.execute(
                        "INSERT INTO kernels (session_id, cluster_role, kernel_group_id) VALUES (%s, 'main', %s)",
                        (session, group),
                    )
                    application.execute(
                        "INSERT INTO kernel_groups (session_id, role, shmem) VALUES (%s, 'main', 7)"
                        " ON CONFLICT DO NOTHING",
                        (generator.choice(made),),
                    )
                fresh.append(session)
                time.sleep(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until(lambda: len(fresh) > 3)
        outcome = cluster.run(batch_size=10, workers=2, chunk_size=20, older_wait=timedelta(seconds=5))
    finally:
        done.set()
        writer.join()
    assert outcome.end == "complete"
    # Every group that is the application's has nothing but what it wrote.
    assert cluster.connection.execute(
        "SELECT count(*) FROM kernel_groups g JOIN kernel_group_resource_slots s ON s.kernel_group_id = g.id"
        " WHERE shmem = 7"
    ).fetchone() == (0,)
    # What came in a range after its verification is left for the next run.
    assert cluster.run(older_wait=timedelta(seconds=5)).end == "complete"
    assert cluster.failures() == []
    assert cluster.connection.execute("SELECT count(*) FROM kernels WHERE kernel_group_id IS NULL").fetchone() == (0,)


def test_empty_range_prefilled_range_and_null_times(cluster):
    made = sessions(cluster, 30, created_at=None)
    cluster.run()
    ours = cluster.everything()
    # The middle third is there already, with its links; the first third lies in a range whose sessions are purged.
    for table in ("kernel_group_environ", "kernel_group_resource_slots", "resource_allocations"):
        cluster.connection.execute(f"DELETE FROM {table}")
    cluster.connection.execute("UPDATE kernels SET kernel_group_id = NULL WHERE session_id > %s", (made[19],))
    cluster.connection.execute("DELETE FROM kernel_groups WHERE session_id > %s", (made[19],))
    active = ledger.begin(
        cluster.connection,
        "kernel_groups",
        {"expected": 30},
        [(None, str(made[9])), (str(made[9]), str(made[19])), (str(made[19]), None)],
    )
    for statement in (
        "DELETE FROM kernels WHERE session_id <= %s",
        "DELETE FROM kernel_groups WHERE session_id <= %s",
        "DELETE FROM sessions WHERE id <= %s",
    ):
        cluster.connection.execute(statement, (made[9],))
    outcome = cluster.run()
    assert outcome.run.id == active.id
    totals = cluster.connection.execute(
        "SELECT totals ->> 'sessions', totals ->> 'groups', totals ->> 'linked' FROM backfill_chunks"
        " WHERE run_id = %s ORDER BY number",
        (active.id,),
    ).fetchall()
    assert totals == [("0", None, None), ("10", "0", "0"), ("10", "10", "10")]
    assert cluster.everything()[0] == ours[0][10:]
    assert cluster.failures() == []


def test_mismatch_ends_the_run_as_failed(cluster):
    """A kernel linked to another session's group is nothing that a backfill may repair."""
    first, second = sessions(cluster, 2)
    group = cluster.group(second)
    cluster.connection.execute("UPDATE kernels SET kernel_group_id = %s WHERE session_id = %s", (group, first))
    outcome = cluster.run()
    assert (outcome.end, outcome.run.state, outcome.totals["mismatches"]) == ("mismatch", "failed", 1)
    assert outcome.run.last_error == "1 mismatches in the verification"


def test_abort_cancels_the_batch_at_hand(cluster):
    sessions(cluster, 4)
    stop = Stop()

    def spoil(connection, call, keys):
        if call == 2:
            threading.Timer(0.2, stop.abort).start()
            connection.execute("SELECT pg_sleep(25)")

    started = time.monotonic()
    outcome = cluster.run(Spoiled(spoil), batch_size=2, watch={"stop": stop})
    assert time.monotonic() - started < 10
    assert (outcome.end, outcome.parents, outcome.totals["groups"]) == ("interrupted", 2, 2)
    [chunk] = claims.chunks(cluster.connection, outcome.run.id)
    assert (chunk.state, chunk.owner) == ("pending", None)


@pytest.mark.parametrize(("settings", "rests"), [({}, 1.0), ({"duty": 0.25}, 3.0)])
def test_worker_rests_in_proportion_to_its_work(cluster, settings, rests):
    """By default as long as it works; at a quarter of its time three times as long."""
    sessions(cluster, 8)
    spans = []

    class Job(KernelGroups):
        def write(self, connection, run_id, keys):
            began = time.monotonic()
            connection.execute("SELECT pg_sleep(0.05)")
            written = super().write(connection, run_id, keys)
            spans.append((began, time.monotonic()))
            return written

    outcome = cluster.run(Job(), batch_size=2, **{"duty": Settings().duty, **settings})
    assert (outcome.end, len(spans)) == ("complete", 4)
    worked = sum(end - begin for begin, end in spans[:-1])
    rested = sum(begin - end for (_, end), (begin, _) in pairwise(spans))
    # What a batch does beside its write is work too, but falls between the spans: much of it on a busy machine.
    assert rests * worked <= rested <= 2 * (rests + 1) * worked


def test_server_without_a_free_connection(cluster, operator):
    """The role's only other connection is the run's own: its worker tries until there is one."""
    sessions(cluster, 4)
    operator.change("ALTER ROLE {} CONNECTION LIMIT 2")
    occupant = operator.connect()
    refused = []

    def connect():
        try:
            return operator.connect()
        except psycopg.OperationalError as error:
            refused.append(str(error))
            if len(refused) == 2:
                occupant.close()
            raise

    object.__setattr__(cluster, "connect", connect)
    outcome = cluster.run()
    assert (outcome.end, outcome.totals["linked"], cluster.failures()) == ("complete", 4, [])
    assert len(refused) >= 2
    assert all("too many connections for role" in text for text in refused)


def test_new_tables_get_statistics(cluster, monkeypatch):
    sessions(cluster, 12)
    monkeypatch.setattr(engine, "POLL_S", 0.02)

    def spoil(connection, call, keys):
        connection.execute("SELECT pg_sleep(0.05)")

    cluster.run(Spoiled(spoil), batch_size=1)
    analyzed = "SELECT analyze_count FROM pg_stat_user_tables WHERE relname = 'kernel_groups'"
    assert until(lambda: cluster.connection.execute(analyzed).fetchone()[0])
