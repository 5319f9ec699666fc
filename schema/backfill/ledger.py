"""The ledger of runs: which there are, which is active, and what the operator wants of it.

Every function is one short transaction of its own, but for `begin_closed`, which belongs to the caller's.
"""

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from schema.backfill.job import Row
from schema.errors import DatabaseError
from schema.models.status import ACTIVE_RUN_STATES, RunPhase, RunState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schema.backfill.partition import Bounds

_ACTIVE = sql.SQL(", ").join(sql.Literal(str(state)) for state in ACTIVE_RUN_STATES)
_RUN = sql.SQL(
    "id, job, state, desired_state, phase, settings, snapshot_mark, totals, last_error, created_at, updated_at,"
    " finished_at"
)


@dataclass(frozen=True)
class Run:
    """A row of `backfill_runs`."""

    id: UUID
    job: str
    state: str
    desired_state: str
    phase: str
    settings: Mapping[str, Any]
    snapshot_mark: str | None
    totals: Mapping[str, int]
    """Sums over the chunks; empty until the run is over."""
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


@contextmanager
def transaction(connection: Connection[Row]) -> "Iterator[None]":
    """A transaction with times in UTC; nothing is set for longer, as a pooler may hand the session on."""
    with connection.transaction():
        connection.execute("SET LOCAL TimeZone = 'UTC'")
        yield


def begin(
    connection: Connection[Row], job: str, settings: Mapping[str, Any], bounds: "Sequence[Bounds]" = ((None, None),)
) -> Run:
    """Return the job's active run; when there is none, make one with a chunk for each of the bounds.

    Two that begin at once: the unique index makes the second wait for the first's commit, and it finds that run.
    """
    with transaction(connection):
        # A snapshot ends behind the last transaction that has ended, not behind the last that has an id. With this one
        # ended, every transaction that has an id by now is older than the mark.
        connection.execute("SELECT pg_current_xact_id()")
    with transaction(connection):
        connection.execute(
            sql.SQL(
                "WITH made AS ("
                " INSERT INTO backfill_runs (job, settings, snapshot_mark)"
                " VALUES (%s, %s, pg_current_snapshot()::text)"
                " ON CONFLICT (job) WHERE state IN ({}) DO NOTHING RETURNING id)"
                " INSERT INTO backfill_chunks (run_id, number, lower, upper)"
                " SELECT made.id, c.place - 1, c.lower, c.upper"
                " FROM made, unnest(%s::text[], %s::text[]) WITH ORDINALITY AS c (lower, upper, place)"
            ).format(_ACTIVE),
            (job, Jsonb(settings), [lower for lower, _ in bounds], [upper for _, upper in bounds]),
        )
    run = latest(connection, job)
    assert run is not None
    return run


def begin_closed(connection: Connection[Row], job: str) -> UUID:
    """Make a run that is over already, in the caller's transaction, for a dry run's rejects; return its id."""
    row = connection.execute(
        "INSERT INTO backfill_runs (job, state) VALUES (%s, %s) RETURNING id", (job, RunState.COMPLETE)
    ).fetchone()
    assert row is not None
    return cast("UUID", row[0])


def latest(connection: Connection[Row], job: str) -> Run | None:
    """Return the job's active run, else its newest, else None."""
    with transaction(connection), connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(
            sql.SQL(
                "SELECT {} FROM backfill_runs WHERE job = %s ORDER BY state IN ({}) DESC, created_at DESC LIMIT 1"
            ).format(_RUN, _ACTIVE),
            (job,),
        ).fetchone()


def get(connection: Connection[Row], run_id: UUID) -> Run:
    """Return the run as it is now.

    Raises:
        DatabaseError: somebody has deleted it.
    """
    with transaction(connection), connection.cursor(row_factory=class_row(Run)) as cursor:
        run = cursor.execute(sql.SQL("SELECT {} FROM backfill_runs WHERE id = %s").format(_RUN), (run_id,)).fetchone()
    if run is None:
        raise DatabaseError(
            f"run {run_id} is gone from backfill_runs, deleted by somebody",
            hint="What was committed stays. Run the command again: it begins another run.",
        )
    return run


def enter(connection: Connection[Row], run_id: UUID, before: RunPhase, after: RunPhase) -> None:
    """Put all chunks up for the next phase, once all are done in the one before; nothing when somebody else has.

    Locks: the run's row, then its chunks, in which nobody works any more.
    """
    with transaction(connection):
        connection.execute(
            "WITH moved AS ("
            " UPDATE backfill_runs SET phase = %s, updated_at = now()"
            " WHERE id = %s AND phase = %s AND state = 'running'"
            " AND NOT EXISTS (SELECT FROM backfill_chunks WHERE run_id = %s AND state <> 'done') RETURNING id)"
            " UPDATE backfill_chunks SET state = 'pending', cursor = NULL, owner = NULL, lease_expires_at = NULL,"
            " attempts = 0, updated_at = now() WHERE run_id IN (SELECT id FROM moved)",
            (after, run_id, before, run_id),
        )


def finish(connection: Connection[Row], run_id: UUID) -> None:
    """Close the run when all its chunks are verified: complete, or failed when a verification found mismatches.

    Its row is locked, so one closes it; whoever comes second finds it closed.
    """
    with transaction(connection):
        connection.execute(
            "WITH summed AS MATERIALIZED ("
            "  SELECT coalesce(jsonb_object_agg(name, amount), '{}') AS totals FROM ("
            "   SELECT t.name, sum(t.amount::bigint) AS amount FROM backfill_chunks c, jsonb_each_text(c.totals)"
            "   AS t(name, amount) WHERE c.run_id = %(run)s GROUP BY t.name) AS amounts)"
            " UPDATE backfill_runs SET finished_at = now(), updated_at = now(), totals = summed.totals,"
            " state = CASE WHEN summed.totals ? 'mismatches' THEN 'failed' ELSE 'complete' END,"
            " last_error = (summed.totals ->> 'mismatches') || ' mismatches in the verification'"
            " FROM summed WHERE id = %(run)s AND phase = 'verify' AND state = 'running'"
            " AND NOT EXISTS (SELECT FROM backfill_chunks WHERE run_id = %(run)s AND state <> 'done')",
            {"run": run_id},
        )


def steer(connection: Connection[Row], job: str, desired: RunState) -> Run | None:
    """Ask the job's active run to pause or to run; None when there is none. Workers look between batches."""
    with transaction(connection), connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(
            sql.SQL(
                "UPDATE backfill_runs SET desired_state = %s, state = %s, updated_at = now()"
                " WHERE job = %s AND state IN ({}) RETURNING {}"
            ).format(_ACTIVE, _RUN),
            (desired, desired, job),
        ).fetchone()
