"""From one phase of a run to the next: batches, then a sweep of what came meanwhile, then a verification.

Any worker on any host makes the step; the ledger sees to it that one does.
"""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from psycopg import Connection

from schema.backfill import ledger
from schema.backfill.job import Row
from schema.models.status import RunPhase, RunState

OLDER_SHOWN = 10
"""Older transactions that are named."""


class Step(StrEnum):
    """What there is to do for a worker that finds no chunk."""

    OVER = "over"
    AGAIN = "again"
    WAIT = "wait"
    PAUSED = "paused"


@dataclass(frozen=True)
class Turn:
    """The answer to a worker that finds no chunk."""

    step: Step
    waits_for: str | None = None
    """Older transactions, by name, when it is they that are waited for."""


def turn(connection: Connection[Row], run_id: UUID) -> Turn:
    """Move the run on when its phase is done."""
    run = ledger.get(connection, run_id)
    if run.finished_at is not None:
        return Turn(Step.OVER)
    if run.desired_state == RunState.PAUSED:
        return Turn(Step.PAUSED)
    with connection.transaction():
        left = connection.execute(
            "SELECT FROM backfill_chunks WHERE run_id = %s AND state <> 'done' LIMIT 1", (run_id,)
        ).fetchone()
    if left is not None:
        return Turn(Step.WAIT)
    if run.phase == RunPhase.BATCHES:
        if holders := older(connection, run):
            shown = ", ".join(holders[:OLDER_SHOWN])
            more = f" and {len(holders) - OLDER_SHOWN} more" if len(holders) > OLDER_SHOWN else ""
            return Turn(Step.WAIT, shown + more)
        ledger.enter(connection, run_id, RunPhase.BATCHES, RunPhase.SWEEP)
    elif run.phase == RunPhase.SWEEP:
        ledger.enter(connection, run_id, RunPhase.SWEEP, RunPhase.VERIFY)
    else:
        ledger.finish(connection, run_id)
    return Turn(Step.AGAIN)


def older(connection: Connection[Row], run: ledger.Run) -> list[str]:
    """Name the transactions of this database that began before the run and go on: they may add rows unseen.

    By transaction ids, which every role may see in pg_locks, and by start times, for those that have written nothing
    yet; the start times of other roles' sessions are seen with pg_read_all_stats only.
    """
    with connection.transaction():
        rows = connection.execute(
            """
            WITH mark AS (SELECT pg_snapshot_xmax(%(mark)s::pg_snapshot)::xid AS xid)
            SELECT format('pid %%s', l.pid), l.pid
            FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid, mark
            WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
              AND a.datname = current_database() AND age(l.transactionid) > age(mark.xid)
            UNION
            SELECT format('pid %%s', pid), pid FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND xact_start < %(begun)s
              AND pid <> pg_backend_pid()
            UNION
            SELECT format('prepared transaction %%L', gid), 0 FROM pg_prepared_xacts, mark
            WHERE database = current_database() AND age(transaction) > age(mark.xid)
            ORDER BY 2, 1
            """,
            {"mark": run.snapshot_mark, "begun": run.created_at},
        ).fetchall()
    return [name for name, _ in rows]
