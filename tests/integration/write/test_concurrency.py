"""Enqueues from eight connections beside a purge and a backfill: nothing lost, nothing orphaned, verified."""

import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import sqlalchemy as sa

from schema.backfill import engine as backfill
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.settings import Settings
from schema.backfill.survey import verify
from schema.errors import MoreWorkError
from schema.identity import SessionID
from schema.pg.connect import connect
from schema.pg.target import Target
from schema.spec.problems import SpecError
from schema.write.enqueue import enqueue
from schema.write.purge import purge

BEFORE = datetime(2026, 1, 1, tzinfo=UTC)
LEGACY, ENQUEUES, WRITERS = 200, 200, 8
RETRIED = {"40P01", "40001", "55P03"}
Make = Callable[..., Any]


def failing(connection: psycopg.Connection[Any]) -> list[object]:
    return [finding for finding in verify(connection, KernelGroups()).findings if finding.fails]


def a_group(group: Make, role: str = "main", **fields: Any) -> Any:
    return group(role, **{"resource_slots": {"cpu": "0.5", "mem": "1g", "cuda.device": 0}, **fields})


def test_verification_agrees_with_what_enqueue_wrote(cluster: Any, session: Make, group: Make) -> None:
    plain = a_group(group)
    rich = a_group(
        group, "worker", replicas=3, shmem="64m", environ={"B": "a=b\nc", "A": "", "Z": "ü"},
        startup_command="run", bootstrap_script="boot", preopen_ports=[2, 1],
    )  # fmt: skip
    bare = group("bare", replicas=2, shmem=0)
    timed = {"requested_starts_at": datetime(2026, 1, 31, tzinfo=UTC), "batch_timeout_sec": 60}
    with cluster.engine.begin() as connection:
        enqueue(connection, session(plain, rich, bare))
        enqueue(connection, session(plain, rich, bare, session_type="batch", **timed))
    with connect(Target.parse(cluster.url, "test"), autocommit=True) as connection:
        assert failing(connection) == []
        assert verify(connection, KernelGroups()).findings == []
        assert backfill.run(opening(cluster), KernelGroups()).totals.get("groups", 0) == 0
    # Had the backfill made the groups from the kernels, it would have made the same.
    groups = (
        "SELECT session_id, role, image_id, shmem, startup_command, preopen_ports, requested_starts_at,"
        " batch_timeout_sec, ARRAY(SELECT (slot_name, quantity)::text FROM kernel_group_resource_slots"
        " WHERE kernel_group_id = g.id ORDER BY 1), ARRAY(SELECT (key, value)::text FROM kernel_group_environ"
        " WHERE kernel_group_id = g.id ORDER BY 1) FROM kernel_groups AS g ORDER BY 1, 2"
    )
    enqueued = cluster.rows(groups)
    make_legacy(cluster)
    backfill.run(opening(cluster), KernelGroups())
    assert cluster.rows(groups) == enqueued
    assert len(enqueued) == 6


def opening(cluster: Any) -> Callable[..., Any]:
    """Opens connections for the backfill."""
    return partial(connect, Target.parse(cluster.url, "test"), autocommit=True)


def make_legacy(cluster: Any) -> None:
    """Take the groups away, so that the sessions are as an old release left them."""
    cluster.run("UPDATE kernels SET kernel_group_id = NULL")
    cluster.run("DELETE FROM kernel_group_resource_slots")
    cluster.run("DELETE FROM kernel_groups")


def test_enqueues_beside_a_backfill_and_a_purge(cluster: Any, session: Make, group: Make) -> None:
    spec = session(a_group(group, environ={"A": "x"}), a_group(group, "worker", replicas=2))
    with cluster.engine.begin() as connection:
        legacy = [enqueue(connection, spec).id for _ in range(LEGACY)]
    make_legacy(cluster)
    old = legacy[::2]
    cluster.run(
        "UPDATE sessions SET status = 'TERMINATED', terminated_at = :at WHERE id = ANY(:ids)",
        at=BEFORE - timedelta(days=1), ids=old,
    )  # fmt: skip
    cluster.run("UPDATE kernels SET status = 'TERMINATED' WHERE session_id = ANY(:ids)", ids=old)

    target = Target.parse(cluster.url, "test")
    faults: list[BaseException] = []
    written: list[SessionID] = []
    gone: list[SpecError] = []
    purged: list[int] = []
    enqueued = threading.Event()

    def write(number: int) -> None:
        chance = random.Random(number)
        for turn in range(ENQUEUES // WRITERS):
            groups = (a_group(group, bootstrap_script=f"boot {turn % 3}"), a_group(group, "worker", replicas=2))
            one = session(*groups, depends_on=(chance.choice(legacy), chance.choice(legacy)))
            while True:
                try:
                    with cluster.engine.begin() as connection:
                        written.append(enqueue(connection, one).id)
                except SpecError as error:
                    # What it wanted to depend on was removed a moment before.
                    gone.append(error)
                except sa.exc.OperationalError as error:
                    if getattr(error.orig, "sqlstate", None) in RETRIED:
                        continue
                    raise
                break

    def sweep() -> None:
        while not enqueued.is_set():
            purged.append(purge(cluster.engine, BEFORE, batch=7).sessions)
            time.sleep(0.01)

    def fill() -> None:
        settings = Settings(batch_size=9, duty=1.0, older_wait=timedelta(milliseconds=100))
        while not enqueued.is_set():
            try:
                backfill.run(opening(cluster), KernelGroups(), settings)
            except MoreWorkError:
                continue

    def guarded(work: Callable[..., None], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as error:  # noqa: BLE001 - told by the test
                faults.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    others = [guarded(sweep), guarded(fill)]
    writers = [guarded(write, number) for number in range(WRITERS)]
    for thread in writers:
        thread.join(120)
    enqueued.set()
    for thread in others:
        thread.join(60)
    assert faults == []
    assert {problem.field for error in gone for problem in error.problems} <= {"depends_on"}
    assert len(written) + len(gone) == ENQUEUES
    assert written
    assert sum(purged) > 0

    backfill.run(opening(cluster), KernelGroups())
    with connect(target, autocommit=True) as connection:
        assert failing(connection) == []
    assert cluster.count("sessions") == LEGACY - sum(purged) + len(written)
    assert cluster.count("kernels") == 3 * cluster.count("sessions")
    assert cluster.count("kernel_groups") == 2 * cluster.count("sessions")
    assert cluster.rows("SELECT count(*) FROM kernels WHERE kernel_group_id IS NULL") == [(0,)]
    # Of the old sessions only those stay that a new one depends on.
    purge(cluster.engine, BEFORE)
    assert cluster.rows(
        "SELECT count(*) FROM sessions s WHERE terminated_at < :before AND NOT EXISTS"
        " (SELECT FROM session_dependencies d WHERE d.depends_on = s.id)",
        before=BEFORE,
    ) == [(0,)]
    assert cluster.count("bootstrap_script_revisions") == 3
