"""The ledger: which runs there are, who works on which key range, and how far each has come.

Every function is one short transaction of its own, but for `fenced`, `advance` and `begin_closed`, which belong to
the caller's.
A claim is a lease with a fence number, not a lock of the session, so that it works behind a connection pooler.
"""

import os
import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from schema.backfill.job import Row
from schema.errors import MoreWorkError
from schema.models.status import ACTIVE_RUN_STATES, ChunkState, RunState

_ACTIVE = sql.SQL(", ").join(sql.Literal(str(state)) for state in ACTIVE_RUN_STATES)
_RUN = sql.SQL("id, job, state, desired_state, settings, totals, last_error, created_at, updated_at, finished_at")


class LeaseLostError(MoreWorkError):
    """Another worker took over the key range; what this one had not committed was rolled back."""

    default_hint = "Nothing is lost. `schemactl backfill status` shows who goes on."


@dataclass(frozen=True)
class Run:
    """A row of `backfill_runs`."""

    id: UUID
    job: str
    state: str
    desired_state: str
    settings: Mapping[str, Any]
    totals: Mapping[str, int]
    """Sums over the chunks; empty until the run is complete."""
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True)
class Chunk:
    """A row of `backfill_chunks`."""

    run_id: UUID
    number: int
    upper: str | None
    cursor: str | None
    """Text of the last key done; the lower bound before the first batch."""
    state: str
    owner: str | None
    fence: int
    lease_expires_at: datetime | None
    totals: Mapping[str, int]
    updated_at: datetime
    desired_state: str
    """Of the run."""

    @property
    def is_done(self) -> bool:
        """Whether the range is worked through."""
        return self.state == ChunkState.DONE


_CHUNK = sql.SQL(
    "c.run_id, c.number, c.upper, coalesce(c.cursor, c.lower) AS cursor, c.state, c.owner, c.fence,"
    " c.lease_expires_at, c.totals, c.updated_at, r.desired_state"
)


def new_owner() -> str:
    """Name this worker: host, process, and a word that tells it from one that had the same number before."""
    return f"{_place()} pid {os.getpid()} {uuid.uuid4().hex[:8]}"


def begin(connection: Connection[Row], job: str, settings: Mapping[str, Any]) -> Run:
    """Return the job's active run; when there is none, make one with a single chunk, the whole key range.

    Two that begin at once: the unique index makes the second wait for the first's commit, and it finds that run.
    """
    with connection.transaction():
        connection.execute(
            sql.SQL(
                "WITH made AS ("
                " INSERT INTO backfill_runs (job, settings, snapshot_mark)"
                " VALUES (%s, %s, pg_current_snapshot()::text)"
                " ON CONFLICT (job) WHERE state IN ({}) DO NOTHING RETURNING id)"
                " INSERT INTO backfill_chunks (run_id, number) SELECT id, 0 FROM made"
            ).format(_ACTIVE),
            (job, Jsonb(settings)),
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
    with connection.transaction(), connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(
            sql.SQL(
                "SELECT {} FROM backfill_runs WHERE job = %s ORDER BY state IN ({}) DESC, created_at DESC LIMIT 1"
            ).format(_RUN, _ACTIVE),
            (job,),
        ).fetchone()


def chunks(connection: Connection[Row], run_id: UUID) -> list[Chunk]:
    """Return the run's chunks in order."""
    with connection.transaction(), connection.cursor(row_factory=class_row(Chunk)) as cursor:
        return cursor.execute(
            sql.SQL(
                "SELECT {} FROM backfill_chunks c JOIN backfill_runs r ON r.id = c.run_id"
                " WHERE c.run_id = %s ORDER BY c.number"
            ).format(_CHUNK),
            (run_id,),
        ).fetchall()


def claim(connection: Connection[Row], run_id: UUID, owner: str, lease: timedelta) -> Chunk | None:
    """Take a chunk that nobody works on, or None when every one is done or somebody else's.

    Free are those never claimed or given back, those whose lease ran out, and those whose owner is a dead process of
    this host. A chunk whose row is locked is in the middle of a batch: skipped, whatever its lease says. A dead owner's
    is waited for, as its server process notices only when its statement ends.
    """
    deadline = time.monotonic() + lease.total_seconds()
    while True:
        dead = [
            chunk.owner for chunk in chunks(connection, run_id) if chunk.owner is not None and _is_dead(chunk.owner)
        ]
        claimed = _claim(connection, run_id, owner, lease, dead)
        if claimed is not None or not dead or time.monotonic() > deadline:
            return claimed
        time.sleep(0.05)


def _claim(connection: Connection[Row], run_id: UUID, owner: str, lease: timedelta, dead: list[str]) -> Chunk | None:
    with connection.transaction(), connection.cursor(row_factory=class_row(Chunk)) as cursor:
        return cursor.execute(
            sql.SQL(
                "UPDATE backfill_chunks c SET state = 'claimed', owner = %(owner)s, fence = c.fence + 1,"
                " attempts = c.attempts + 1, lease_expires_at = clock_timestamp() + %(lease)s, updated_at = now()"
                " FROM backfill_runs r WHERE r.id = c.run_id AND c.run_id = %(run)s AND c.number = ("
                "  SELECT number FROM backfill_chunks WHERE run_id = %(run)s AND (state = 'pending'"
                "  OR state = 'claimed' AND (lease_expires_at < clock_timestamp() OR owner = ANY(%(dead)s)))"
                "  ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)"
                " RETURNING {}"
            ).format(_CHUNK),
            {"run": run_id, "owner": owner, "lease": lease, "dead": dead},
        ).fetchone()


def fenced(connection: Connection[Row], claimed: Chunk) -> Chunk:
    """Lock the chunk's row for this transaction and return it as it is now.

    Raises:
        LeaseLostError: somebody else has claimed it since.
    """
    with connection.cursor(row_factory=class_row(Chunk)) as cursor:
        chunk = cursor.execute(
            sql.SQL(
                "SELECT {} FROM backfill_chunks c JOIN backfill_runs r ON r.id = c.run_id"
                " WHERE c.run_id = %s AND c.number = %s AND c.owner = %s AND c.fence = %s AND c.state = 'claimed'"
                " FOR UPDATE OF c"
            ).format(_CHUNK),
            (claimed.run_id, claimed.number, claimed.owner, claimed.fence),
        ).fetchone()
    if chunk is None:
        raise LeaseLostError(f"chunk {claimed.number} of run {claimed.run_id} was taken over by another worker")
    return chunk


def advance(
    connection: Connection[Row],
    chunk: Chunk,
    *,
    cursor: str | None,
    totals: Mapping[str, int],
    lease: timedelta,
    done: bool,
) -> None:
    """Move the fenced chunk's cursor, set its totals and renew its lease, or close it. A None cursor stays."""
    state = ChunkState.DONE if done else ChunkState.CLAIMED
    connection.execute(
        "UPDATE backfill_chunks SET cursor = coalesce(%s, cursor), totals = %s, state = %s, attempts = 0,"
        " last_sqlstate = NULL, lease_expires_at = clock_timestamp() + %s, updated_at = now()"
        " WHERE run_id = %s AND number = %s",
        (cursor, Jsonb(totals), state, lease, chunk.run_id, chunk.number),
    )


def release(
    connection: Connection[Row], claimed: Chunk, *, error: str | None = None, sqlstate: str | None = None
) -> None:
    """Give a chunk back, so that the next worker need not wait for its lease; nothing if it is no longer ours."""
    with connection.transaction():
        connection.execute(
            "WITH freed AS ("
            " UPDATE backfill_chunks SET state = 'pending', owner = NULL, lease_expires_at = NULL,"
            " last_sqlstate = coalesce(%s, last_sqlstate), updated_at = now()"
            " WHERE run_id = %s AND number = %s AND owner = %s AND fence = %s AND state = 'claimed' RETURNING run_id)"
            " UPDATE backfill_runs SET last_error = %s, updated_at = now() WHERE id IN (SELECT run_id FROM freed)",
            (sqlstate, claimed.run_id, claimed.number, claimed.owner, claimed.fence, error),
        )


def finish(connection: Connection[Row], run_id: UUID) -> Run | None:
    """Close the run when all its chunks are done; None when some aren't. Its row is locked, so one closes it."""
    with connection.transaction(), connection.cursor(row_factory=class_row(Run)) as cursor:
        cursor.execute("SELECT FROM backfill_runs WHERE id = %s FOR NO KEY UPDATE", (run_id,))
        return cursor.execute(
            sql.SQL(
                "UPDATE backfill_runs SET state = %s, finished_at = coalesce(finished_at, now()), updated_at = now(),"
                " last_error = NULL, totals = (SELECT coalesce(jsonb_object_agg(name, amount), '{{}}') FROM ("
                "  SELECT t.name, sum(t.amount::bigint) AS amount FROM backfill_chunks c, jsonb_each_text(c.totals)"
                "  AS t(name, amount) WHERE c.run_id = %s GROUP BY t.name) AS summed)"
                " WHERE id = %s AND NOT EXISTS"
                " (SELECT FROM backfill_chunks WHERE run_id = %s AND state <> 'done')"
                " RETURNING {}"
            ).format(_RUN),
            (RunState.COMPLETE, run_id, run_id, run_id),
        ).fetchone()


def steer(connection: Connection[Row], job: str, desired: RunState) -> Run | None:
    """Ask the job's active run to pause or to run; None when there is none. Workers look between batches."""
    with connection.transaction(), connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(
            sql.SQL(
                "UPDATE backfill_runs SET desired_state = %s, state = %s, updated_at = now()"
                " WHERE job = %s AND state IN ({}) RETURNING {}"
            ).format(_ACTIVE, _RUN),
            (desired, desired, job),
        ).fetchone()


def _place() -> str:
    # Containers that share a host's name have their own process numbers.
    namespace = ""
    with suppress(OSError):
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return socket.gethostname() + namespace.removeprefix("pid:")


def _is_dead(owner: str) -> bool:
    """Whether the owner is a process of this host that is gone; False when that cannot be known."""
    place, _, rest = owner.partition(" pid ")
    pid = rest.partition(" ")[0]
    if place != _place() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
