"""Purge: the order the database demands, what stays and why, batches, and the sweep of old that no longer works."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from schema.errors import UsageError
from schema.identity import SessionID
from schema.write.enqueue import enqueue
from schema.write.purge import Purged, Reason, purge, purge_batch

BEFORE = datetime(2026, 1, 1, tzinfo=UTC)
OLD = BEFORE - timedelta(days=1)
Make = Callable[..., Any]


@pytest.fixture
def ended(cluster: Any, session: Make, group: Make) -> Callable[..., SessionID]:
    """Enqueue a session and end it, a day before BEFORE unless told otherwise."""

    def make(
        *, status: str = "TERMINATED", at: datetime | None = OLD, kernels: str = "TERMINATED", **fields: Any
    ) -> SessionID:
        parts = [group(role, replicas=2, resource_slots={"cpu": 1}, environ={"A": "x"}) for role in ("main", "sub")]
        with cluster.engine.begin() as connection:
            id_ = enqueue(connection, session(*parts, **fields)).id
        cluster.run("UPDATE sessions SET status = :s, terminated_at = :at WHERE id = :id", s=status, at=at, id=id_)
        cluster.run(
            "UPDATE kernels SET status = :s, terminated_at = :at WHERE session_id = :id", s=kernels, at=at, id=id_
        )
        return id_

    return make


def sessions(cluster: Any) -> set[SessionID]:
    return {row[0] for row in cluster.rows("SELECT id FROM sessions")}


def test_a_session_goes_with_everything_of_it(cluster: Any, ended: Make) -> None:
    ended()
    kept = ended(at=BEFORE)
    before = cluster.counts()
    run = purge(cluster.engine, BEFORE)
    assert (run.sessions, run.kernels, run.slots, run.groups, run.blocked) == (1, 4, 2, 2, [])
    assert sessions(cluster) == {kept}
    assert cluster.counts() == {table: count // 2 for table, count in before.items()}


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "TERMINATING", "RUNNING_DEGRADED"])
def test_what_has_not_ended_is_no_candidate(cluster: Any, ended: Make, status: str) -> None:
    ended(status=status)
    ended(at=None)
    ended(at=BEFORE)
    run = purge(cluster.engine, BEFORE)
    assert (run.sessions, run.blocked, len(sessions(cluster))) == (0, [], 3)


@pytest.mark.parametrize("status", ["ERROR", "CANCELLED", "TERMINATED"])
def test_every_terminal_status_is_one(cluster: Any, ended: Make, status: str) -> None:
    ended(status=status, kernels=status)
    assert purge(cluster.engine, BEFORE).sessions == 1


def test_a_live_kernel_keeps_its_session(cluster: Any, ended: Make) -> None:
    id_, gone = ended(kernels="RUNNING"), ended()
    run = purge(cluster.engine, BEFORE)
    (blocked,) = run.blocked
    assert (run.sessions, blocked.session, blocked.reason) == (1, id_, Reason.LIVE_KERNEL)
    ((kernel,),) = cluster.rows("SELECT min(id::text) FROM kernels WHERE session_id = :id", id=id_)
    assert blocked.detail == f"its kernel {kernel} is RUNNING"
    assert sessions(cluster) == {id_}
    assert gone not in sessions(cluster)


def test_a_chain_of_dependencies_goes_from_its_end(cluster: Any, ended: Make) -> None:
    first = ended()
    second = ended(depends_on=(first,))
    third = ended(depends_on=(second,), status="RUNNING")
    run = purge(cluster.engine, BEFORE)
    assert run.sessions == 0
    assert [(one.session, one.reason, one.detail) for one in run.blocked] == [
        (second, Reason.DEPENDED_ON, f"session {third}, which is RUNNING, depends on it"),
        (first, Reason.DEPENDED_ON, f"session {second}, which is TERMINATED, depends on it"),
    ]
    assert cluster.count("session_dependencies") == 2
    cluster.run("UPDATE sessions SET status = 'TERMINATED', terminated_at = :at", at=OLD)
    run = purge(cluster.engine, BEFORE)
    assert (run.sessions, run.blocked, sessions(cluster)) == (3, [], set())


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_chain_against_the_order_of_ids_and_batches(cluster: Any, ended: Make, dry_run: bool) -> None:
    ids = [ended(id=SessionID(int=number)) for number in (9, 8, 7)]
    for session, needed in ((ids[1], ids[0]), (ids[2], ids[1])):
        cluster.run("INSERT INTO session_dependencies VALUES (:s, :n)", s=session, n=needed)
    run = purge(cluster.engine, BEFORE, batch=1, dry_run=dry_run)
    assert (run.sessions, run.kernels, run.groups, run.slots, run.blocked) == (3, 12, 6, 6, [])
    assert len(sessions(cluster)) == (3 if dry_run else 0)


def test_two_sessions_that_depend_on_each_other_go_together(cluster: Any, ended: Make) -> None:
    first, second = ended(), ended()
    cluster.run("INSERT INTO session_dependencies VALUES (:a, :b), (:b, :a)", a=first, b=second)
    assert purge(cluster.engine, BEFORE).sessions == 2


def test_a_kernel_of_another_session_keeps_the_group(cluster: Any, ended: Make) -> None:
    id_, other = ended(), ended(status="RUNNING")
    cluster.run(
        "UPDATE kernels SET kernel_group_id = (SELECT id FROM kernel_groups WHERE session_id = :id AND role = 'main')"
        " WHERE session_id = :other AND cluster_role = 'main' AND cluster_idx = 1",
        id=id_, other=other,
    )  # fmt: skip
    (blocked,) = purge(cluster.engine, BEFORE).blocked
    assert (blocked.session, blocked.reason) == (id_, Reason.FOREIGN_KERNEL)
    assert f"of session {other} belongs to its group main" in blocked.detail


def test_a_table_that_nobody_told_us_of(cluster: Any, ended: Make) -> None:
    kept, *others = (ended() for _ in range(3))
    cluster.run("CREATE TABLE invoices (session_id uuid CONSTRAINT fk_invoice REFERENCES sessions)")
    cluster.run("INSERT INTO invoices VALUES (:id)", id=kept)
    run = purge(cluster.engine, BEFORE)
    assert run.sessions == 2
    (blocked,) = run.blocked
    assert (blocked.session, blocked.reason) == (kept, Reason.REFERRED_TO)
    assert blocked.detail == "fk_invoice on invoices keeps a part of it"
    assert sessions(cluster) == {kept}
    assert cluster.rows("SELECT count(*) FROM kernels WHERE session_id = :id", id=kept) == [(4,)]
    assert others


def test_a_dry_run_writes_nothing_and_locks_nothing(cluster: Any, ended: Make) -> None:
    ended()
    ended(kernels="RUNNING")
    before = cluster.counts()
    with cluster.engine.connect() as busy:
        busy.execute(sa.text("SELECT FROM sessions FOR UPDATE"))
        run = purge(cluster.engine, BEFORE, dry_run=True)
    assert (run.sessions, run.kernels, run.slots, run.groups, len(run.blocked)) == (1, 4, 2, 2, 1)
    assert cluster.counts() == before


def test_batches_commit_one_by_one_and_an_interrupted_run_goes_on(cluster: Any, ended: Make) -> None:
    for _ in range(5):
        ended()
    seen: list[int] = []

    def advance(done: Purged) -> None:
        seen.append(len(done.sessions))
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        purge(cluster.engine, BEFORE, batch=2, advance=advance)
    assert (seen, len(sessions(cluster)), cluster.count("kernels")) == ([2, 2], 1, 4)
    assert purge(cluster.engine, BEFORE, batch=2).sessions == 1


def test_a_locked_session_is_left_for_later(cluster: Any, ended: Make) -> None:
    """As the backfill locks it: FOR KEY SHARE."""
    busy, free = ended(), ended()
    with cluster.engine.connect() as other:
        other.execute(sa.text("SELECT FROM sessions WHERE id = :id FOR KEY SHARE"), {"id": busy})
        run = purge(cluster.engine, BEFORE)
    # And not waited for: after a lock timeout it would be a part of it that is said to be locked.
    assert run.sessions == 1
    assert [(one.session, one.reason, one.detail) for one in run.blocked] == [
        (busy, Reason.BUSY, "another transaction works on it")
    ]
    assert sessions(cluster) == {busy}
    assert free not in sessions(cluster)
    assert purge(cluster.engine, BEFORE).sessions == 1


def test_a_locked_kernel_is_waited_for_no_longer_than_allowed(cluster: Any, ended: Make) -> None:
    busy, _ = ended(), ended()
    with cluster.engine.connect() as other, cluster.engine.begin() as connection:
        other.execute(sa.text("SELECT FROM kernels WHERE session_id = :id FOR UPDATE"), {"id": busy})
        connection.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        done = purge_batch(connection, BEFORE)
    assert (len(done.sessions), [(one.session, one.reason) for one in done.blocked]) == (1, [(busy, Reason.BUSY)])
    assert sessions(cluster) == {busy}
    assert cluster.count("kernels") == 4


def test_nobody_can_add_to_a_session_that_is_being_removed(cluster: Any, ended: Make, session: Make) -> None:
    id_ = ended()
    with cluster.engine.connect() as removing:
        purge_batch(removing, BEFORE)
        with cluster.engine.connect() as other:
            other.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
            with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
                enqueue(other, session(depends_on=(id_,)))
        removing.commit()
    assert sessions(cluster) == set()


@pytest.mark.parametrize(
    ("sweep", "constraint"),
    [
        # Retention as it was written for the tables of old.
        (("kernels", "sessions"), "fk_kernel_groups_session_id_sessions"),
        # And every other wrong order.
        (("kernel_groups",), "fk_kernels_kernel_group_id_kernel_groups|fk_kernel_group_resource_slots_kernel_group_id"),
        (("kernels", "kernel_groups"), "fk_kernel_group_resource_slots_kernel_group_id_kernel_groups"),
        (("kernel_group_resource_slots", "kernel_groups"), "fk_kernels_kernel_group_id_kernel_groups"),
        (("sessions",), "fk_kernel(s|_groups)_session_id_sessions"),
    ],
)
def test_any_other_order_is_refused_by_the_database(
    cluster: Any, ended: Make, sweep: tuple[str, ...], constraint: str
) -> None:
    ended()
    before = cluster.counts()
    with cluster.engine.begin() as connection:
        for table in sweep[:-1]:
            connection.execute(sa.text(f"DELETE FROM {table}"))
        with pytest.raises(sa.exc.IntegrityError, match=constraint):
            connection.execute(sa.text(f"DELETE FROM {sweep[-1]}"))
        connection.rollback()
    assert cluster.counts() == before


def test_a_sweep_of_old_with_the_two_statements_it_lacks(cluster: Any, ended: Make) -> None:
    page = (Path(__file__).parents[3] / "docs/retention.md").read_text()
    (block,) = re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    ended()
    kept = ended(at=BEFORE)
    with cluster.engine.begin() as connection:
        for statement in block.split(";")[:-1]:
            connection.execute(sa.text(statement), {"before": BEFORE})
    assert sessions(cluster) == {kept}
    assert (cluster.count("kernel_groups"), cluster.count("kernel_group_resource_slots")) == (2, 2)


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("batch", [1, 10])
def test_a_kernel_of_another_session_that_goes_keeps_nothing(
    cluster: Any, ended: Make, dry_run: bool, batch: int
) -> None:
    """Whichever of the two comes first, and as the dry run says."""
    low, high = ended(id=SessionID(int=1)), ended(id=SessionID(int=2))
    for group, kernel in ((low, high), (high, low)):
        cluster.run(
            "UPDATE kernels SET kernel_group_id = (SELECT id FROM kernel_groups WHERE session_id = :g AND role = 'sub')"
            " WHERE session_id = :k AND cluster_role = 'main' AND cluster_idx = 1",
            g=group, k=kernel,
        )  # fmt: skip
        if batch == 1:
            break
    run = purge(cluster.engine, BEFORE, batch=batch, dry_run=dry_run)
    assert (run.sessions, run.kernels, run.blocked) == (2, 8, [])
    assert len(sessions(cluster)) == (2 if dry_run else 0)


def test_a_long_chain_is_judged_in_no_time(cluster: Any, ended: Make) -> None:
    """The last of five thousand sessions, each of which depends on the one before, is running."""
    cluster.run(
        "INSERT INTO sessions (id, status, terminated_at) SELECT lpad(to_hex(n), 32, '0')::uuid,"
        " CASE n WHEN 5000 THEN 'RUNNING' ELSE 'TERMINATED' END, :at FROM generate_series(1, 5000) AS n",
        at=OLD,
    )
    cluster.run(
        "INSERT INTO session_dependencies SELECT lpad(to_hex(n + 1), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid"
        " FROM generate_series(1, 4999) AS n"
    )
    started = time.process_time()
    run = purge(cluster.engine, BEFORE, batch=10_000)
    assert (run.sessions, len(run.blocked)) == (0, 4999)
    assert {one.reason for one in run.blocked} == {Reason.DEPENDED_ON}
    # Once for each link of the chain, it took several times as long.
    assert time.process_time() - started < 1


def test_two_purges_at_once_share_the_work_and_report_nothing_that_is_gone(cluster: Any, ended: Make) -> None:
    """The second has seen the sessions before the first, which removes them, commits."""
    ids = {ended() for _ in range(3)}
    with cluster.engine.connect() as first, cluster.engine.connect() as second:
        removed = purge_batch(first, BEFORE)
        statements: list[str] = []

        @sa.event.listens_for(second, "before_cursor_execute")
        def commit_the_first(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "SKIP LOCKED" in statement:
                first.commit()
                statements.append(statement)

        done = purge_batch(second, BEFORE)
        second.commit()
    assert len(statements) == 1
    assert (set(removed.sessions), done.sessions, done.blocked) == (ids, (), ())
    assert sessions(cluster) == set()


def test_a_lock_on_a_whole_table_is_no_fault_of_any_session(cluster: Any, ended: Make) -> None:
    """It is waited for once, and not once for each session of the batch."""
    for _ in range(3):
        ended()
    with cluster.engine.connect() as index, cluster.engine.begin() as connection:
        index.execute(sa.text("LOCK TABLE kernels IN SHARE MODE"))
        connection.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            purge_batch(connection, BEFORE)
    assert len(sessions(cluster)) == 3


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_connection_in_autocommit_is_refused(cluster: Any, ended: Make, dry_run: bool) -> None:
    ended()
    autocommit = cluster.engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection, pytest.raises(UsageError, match="sessions cannot be removed"):
        purge_batch(connection, BEFORE, dry_run=dry_run)
    assert purge(autocommit, BEFORE).sessions == 1


def test_what_cascades_from_a_session_goes_with_it(cluster: Any, ended: Make) -> None:
    gone, kept = ended(), ended(status="RUNNING")
    for id_ in (gone, kept):
        cluster.run("INSERT INTO routings (endpoint_id, session_id) VALUES (:e, :s)", e=cluster.endpoint_id, s=id_)
    assert purge(cluster.engine, BEFORE).sessions == 1
    assert cluster.rows("SELECT session_id FROM routings") == [(kept,)]
    assert cluster.count("endpoints") == 1


def test_a_moment_without_offset_and_an_empty_batch_are_refused(cluster: Any, ended: Make) -> None:
    ended()
    with pytest.raises(UsageError, match="2026-01-01 00:00:00 has no offset"):
        purge(cluster.engine, BEFORE.replace(tzinfo=None))
    with pytest.raises(UsageError, match="at least one session, not 0"):
        purge(cluster.engine, BEFORE, batch=0)
    assert cluster.count("sessions") == 1
