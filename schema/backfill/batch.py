"""One batch: one short transaction, in the phase that the run is in."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

import psycopg
from psycopg import Connection, sql

from schema.backfill import claims, keyset
from schema.backfill.job import Job, Key, Row
from schema.backfill.policy import Action, action
from schema.backfill.settings import Settings
from schema.backfill.throttle.waiting import is_waited_for
from schema.models.status import RunPhase, RunState
from schema.pg.errors import translate


@dataclass(frozen=True)
class Batch:
    """What a batch did."""

    total: int
    """Parent rows done in the chunk, this batch included. By the ledger, so that a batch whose COMMIT was not
    answered is counted when it did commit."""
    parents: int = 0
    """Parent rows of this batch."""
    last: bool = False
    """Whether the chunk is done."""
    paused: bool = False
    waited_for: bool = False
    """Whether a backend waited for this batch."""
    set_aside: bool = False


@dataclass(frozen=True)
class Mode:
    """How a batch of a single row treats it."""

    set_aside: bool = False
    """Quarantine the row when it fails again."""
    skip: bool = False
    """Leave the row, which is locked, for the sweep."""


def work(
    connection: Connection[Row],
    job: Job,
    settings: Settings,
    claimed: claims.Chunk,
    size: int,
    rate: float | None,
    mode: Mode,
) -> Batch:
    """Do the next `size` parent rows of a chunk, up to the upper bound of `claimed`.

    Locks in this order: the chunk's row FOR UPDATE (a worker whose lease was taken over gets no further; after a COMMIT
    without answer this waits until the old transaction has ended, and reads its outcome), the parent rows FOR KEY SHARE
    by key (they stay; who updates their other columns isn't held up), then what the job says.

    Raises:
        LeaseLostError: somebody else has the chunk.
        psycopg.Error: the batch failed, and is rolled back.
    """
    with connection.transaction():
        prepare(connection, settings)
        chunk = replace(claims.fenced(connection, claimed), upper=claimed.upper)
        total = chunk.totals.get(job.parent.table, 0)
        if chunk.is_done:
            return Batch(total, last=True)
        if chunk.desired_state == RunState.PAUSED:
            return Batch(total, paused=True)
        keys, written = _phase(connection, job, chunk, size, mode)
        waited_for = is_waited_for(connection)
        last = len(keys) < size
        if chunk.phase == RunPhase.BATCHES:
            written = add({job.parent.table: len(keys)}, written)
            total += len(keys)
        claims.advance(
            connection,
            chunk,
            cursor=str(keys[-1]) if keys else None,
            totals=add(chunk.totals, written),
            lease=settings.lease,
            done=last,
            batch_size=size,
            rate=rate,
        )
    return Batch(total, len(keys), last, waited_for=waited_for, set_aside="quarantined" in written)


def prepare(connection: Connection[Row], settings: Settings) -> None:
    """Set the transaction up; all of it ends with the transaction, as a pooler may hand the session on.

    READ COMMITTED whatever the role's default is: the job's later statements must see what others committed. UTC, so
    that timestamps without an offset mean that. No JIT: its compiling costs more than a batch. The idle limit ends the
    transaction of a process that was frozen in it, and with that its locks. A COMMIT does not wait for the disk: if the
    server crashes, the cursor goes back together with the rows. What ends a run does wait, and so for all before it.
    """
    milliseconds = [
        sql.Literal(f"{int(limit.total_seconds() * 1000)}ms")
        for limit in (settings.lock_timeout, settings.statement_timeout, settings.lease)
    ]
    connection.execute(
        sql.SQL(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off;"
            " SET LOCAL synchronous_commit = off;"
            " SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {};"
            " SET LOCAL idle_in_transaction_session_timeout = {}"
        ).format(*milliseconds)
    )


def write(connection: Connection[Row], job: Job, run_id: UUID, keys: list[Key]) -> Mapping[str, int]:
    """Have the job write what the locked rows need, if there are any."""
    return job.write(connection, run_id, keys) if keys else {}


def quarantined(connection: Connection[Row], chunk: claims.Chunk, keys: Collection[Key]) -> set[str]:
    """Those of the keys, as texts, whose rows were set aside in the chunk's run."""
    if not keys:
        return set()
    rows = connection.execute(
        "SELECT parent_key FROM backfill_rejects"
        " WHERE run_id = %s AND session_id IS NULL AND parent_key = ANY(%s::text[])",
        (chunk.run_id, [str(key) for key in keys]),
    )
    return {text for (text,) in rows}


def add(*totals: Mapping[str, int]) -> dict[str, int]:
    """Sums by name."""
    names = dict.fromkeys(name for total in totals for name in total)
    return {name: sum(total.get(name, 0) for total in totals) for name in names}


def _phase(
    connection: Connection[Row], job: Job, chunk: claims.Chunk, size: int, mode: Mode
) -> tuple[list[Key], Mapping[str, int]]:
    """Return the keys that the batch is about, and what it did to them."""
    if chunk.phase == RunPhase.VERIFY:
        keys = keyset.read(connection, job.parent, chunk.cursor, chunk.upper, size)
        attempt: Callable[[], Mapping[str, int]] = partial(_verify, connection, job, chunk, keys)
    elif mode.skip:
        keys = keyset.read(connection, job.parent, chunk.cursor, chunk.upper, 1)
        return keys, {"deferred": len(keys)}
    else:
        if chunk.phase == RunPhase.SWEEP:
            keys = list(job.pending(connection, chunk.cursor, chunk.upper, size))
            out = quarantined(connection, chunk, keys)
            locked = keyset.lock_these(connection, job.parent, [key for key in keys if str(key) not in out])
        else:
            keys = locked = keyset.lock(connection, job.parent, chunk.cursor, chunk.upper, size)
        attempt = partial(write, connection, job, chunk.run_id, locked)
    if not keys:
        return keys, {}
    if not mode.set_aside:
        return keys, attempt()
    try:
        with connection.transaction():
            written = attempt()
            # What a deferred constraint says at COMMIT would be too late to set the row aside.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            return keys, written
    except psycopg.Error as error:
        if connection.closed or action(error) not in (Action.BISECT, Action.REREAD):
            raise
        return keys, _set_aside(connection, job, chunk, keys[0], error)


def _verify(connection: Connection[Row], job: Job, chunk: claims.Chunk, keys: list[Key]) -> Mapping[str, int]:
    """Hold the rows against the rules; write once more those that fail, as they may have come after the sweep.

    What fails then is counted, but for rows that were set aside: those are counted as rejects.
    """
    failing = _failing(connection, job, chunk, keys)
    if not failing:
        return {}
    locked = keyset.lock_these(connection, job.parent, failing)
    written = write(connection, job, chunk.run_id, locked)
    mismatches = len(_failing(connection, job, chunk, locked)) if locked else 0
    return add(written, {"mismatches": mismatches} if mismatches else {})


def _failing(connection: Connection[Row], job: Job, chunk: claims.Chunk, keys: list[Key]) -> list[Key]:
    failing = {finding.key for finding in job.verify(connection, keys) if finding.fails}
    out = quarantined(connection, chunk, failing)
    return [key for key in keys if key in failing and str(key) not in out]


def _set_aside(
    connection: Connection[Row], job: Job, chunk: claims.Chunk, key: Key, error: psycopg.Error
) -> Mapping[str, int]:
    known = translate(error)
    # Once per run: the sweep finds the row again.
    inserted = connection.execute(
        "INSERT INTO backfill_rejects (run_id, parent_key, field, reason)"
        " SELECT %(run)s, %(key)s, %(table)s, %(reason)s"
        " WHERE NOT EXISTS (SELECT FROM backfill_rejects"
        " WHERE run_id = %(run)s AND session_id IS NULL AND parent_key = %(key)s)",
        {
            "run": chunk.run_id,
            "key": str(key),
            "table": job.parent.table,
            "reason": known.message if known else type(error).__name__,
        },
    ).rowcount
    return {"quarantined": inserted, "rejects": inserted}
