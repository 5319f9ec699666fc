"""The loop: runs a job over its parent table, batch by batch, each one short transaction, until nothing is left.

The engine knows no job's tables. Batches go by keyset, so one costs the same at the end of the table as at its start.
"""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TypeVar

import psycopg
from psycopg import Connection, sql

from schema.backfill import keyset, ledger
from schema.backfill.job import Job, Row
from schema.errors import MoreWorkError
from schema.models.status import RunState

T = TypeVar("T")

RETRIED = frozenset({"40001", "40P01", "55P03", "23503"})
"""SQLSTATEs after which the same batch is tried again: serialization, deadlock, lock timeout, and a foreign key whose
target (an image, a slot type) was deleted between our read and our insert."""

PAUSE_MAX_S = 5.0
"""Longest pause between two attempts at a batch."""


@dataclass(frozen=True)
class Settings:
    """How a job is run."""

    batch_size: int = 1000
    """Parent rows per transaction."""
    max_time: timedelta | None = None
    """No batch is begun after this."""
    lease: timedelta = timedelta(seconds=30)
    """How long a chunk stays claimed without a batch, and how long a batch may do nothing."""
    lock_timeout: timedelta = timedelta(milliseconds=800)
    """How long a batch waits for one lock. Below the server's deadlock_timeout (default 1 s): in a deadlock with the
    application it is the batch that gives up, and is tried again."""
    attempts: int = 10
    """How often one batch is tried."""


class End(StrEnum):
    """Why the loop ended."""

    COMPLETE = "complete"
    PAUSED = "paused"
    TIME = "time"


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    end: End
    run: ledger.Run | None
    """None after a dry run."""
    totals: Mapping[str, int]
    """Of the whole run, earlier calls included."""
    parents: int
    """Parent rows done by this call."""
    seconds: float


@dataclass(frozen=True)
class _Batch:
    parents: int
    last: bool = False
    paused: bool = False


def run(
    connection: Connection[Row],
    job: Job,
    settings: Settings | None = None,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Run the job from where its active run stands, or anew, until done, paused or out of time.

    `connection` has no transaction open and is used for nothing else meanwhile. `advance` is told the parent rows of
    each batch after its commit.

    Raises:
        MoreWorkError: the run is paused, or another worker is at it.
        psycopg.Error: a batch failed, retries included. What was committed stays; the same call goes on from there.
    """
    settings = settings or Settings()
    started = time.monotonic()
    active = ledger.begin(
        connection, job.name, {"batch_size": settings.batch_size, "expected": keyset.count(connection, job.parent)}
    )
    if active.desired_state == RunState.PAUSED:
        raise MoreWorkError("the backfill is paused", hint="`schemactl backfill resume`, then run it again.")
    parents = 0
    end = End.COMPLETE
    while end is End.COMPLETE:
        chunk = ledger.claim(connection, active.id, ledger.new_owner(), settings.lease)
        if chunk is None:
            break
        last = False
        try:
            while not last and end is End.COMPLETE:
                batch = _retried(connection, settings, partial(_batch, connection, job, settings, chunk))
                parents += batch.parents
                advance(batch.parents)
                last = batch.last
                if batch.paused:
                    end = End.PAUSED
                elif not last and _is_over(started, settings):
                    end = End.TIME
        except BaseException as error:
            _give_back(connection, chunk, error)
            raise
        ledger.release(connection, chunk)
    closed = ledger.finish(connection, active.id)
    chunks = ledger.chunks(connection, active.id)
    if closed is None and end is End.COMPLETE:
        owners = " and ".join(sorted({chunk.owner for chunk in chunks if chunk.owner is not None}))
        raise MoreWorkError(
            f"{owners or 'another worker'} works on the backfill begun {active.created_at:%Y-%m-%d %H:%M:%S %Z}",
            hint="`schemactl backfill status` shows how far it is. If that process is gone, its claim ends "
            f"{settings.lease.total_seconds():.0f} s after its last batch: run the command again then.",
        )
    totals = _sum(*(chunk.totals for chunk in chunks))
    return Outcome(End.COMPLETE if closed else end, closed or active, totals, parents, time.monotonic() - started)


def dry_run(
    connection: Connection[Row],
    job: Job,
    settings: Settings | None = None,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Write every batch as a new run would, and roll each back. The active run is left alone.

    It takes the locks of a run, one batch long each.
    """
    settings = settings or Settings()
    started = time.monotonic()
    totals: Mapping[str, int] = {}
    parents = 0
    cursor: str | None = None
    while True:
        written, cursor = _retried(connection, settings, partial(_rolled_back, connection, job, settings, cursor))
        done = written[job.parent.table]
        totals = _sum(totals, written)
        parents += done
        advance(done)
        if done < settings.batch_size:
            return Outcome(End.COMPLETE, None, totals, parents, time.monotonic() - started)
        if _is_over(started, settings):
            return Outcome(End.TIME, None, totals, parents, time.monotonic() - started)


def _batch(connection: Connection[Row], job: Job, settings: Settings, claimed: ledger.Chunk) -> _Batch:
    """One batch, one transaction.

    Locks in this order: the chunk's row FOR UPDATE (a worker whose lease was taken over gets no further), the parent
    rows FOR KEY SHARE by key (they stay; who updates their other columns isn't held up), then what the job says.
    """
    with connection.transaction():
        _prepare(connection, settings)
        chunk = ledger.fenced(connection, claimed)
        if chunk.desired_state == RunState.PAUSED:
            return _Batch(0, paused=True)
        keys = keyset.lock(connection, job.parent, chunk.cursor, chunk.upper, settings.batch_size)
        written = job.write(connection, chunk.run_id, keys) if keys else {}
        last = len(keys) < settings.batch_size
        ledger.advance(
            connection,
            chunk,
            cursor=str(keys[-1]) if keys else None,
            totals=_sum(chunk.totals, {job.parent.table: len(keys)}, written),
            lease=settings.lease,
            done=last,
        )
    return _Batch(len(keys), last=last)


def _rolled_back(
    connection: Connection[Row], job: Job, settings: Settings, cursor: str | None
) -> tuple[Mapping[str, int], str | None]:
    with connection.transaction(force_rollback=True):
        _prepare(connection, settings)
        run_id = ledger.begin_closed(connection, job.name)
        keys = keyset.lock(connection, job.parent, cursor, None, settings.batch_size)
        written = job.write(connection, run_id, keys) if keys else {}
    return _sum({job.parent.table: len(keys)}, written), str(keys[-1]) if keys else cursor


def _prepare(connection: Connection[Row], settings: Settings) -> None:
    """Set the transaction up; all of it ends with the transaction, as a pooler may hand the session on.

    READ COMMITTED whatever the role's default is: the job's later statements must see what others committed. UTC, so
    that timestamps without an offset mean that. No JIT: its compiling costs more than a batch. The idle limit ends the
    transaction of a process that was frozen in it, and with that its locks.
    """
    milliseconds = [
        sql.Literal(f"{int(limit.total_seconds() * 1000)}ms") for limit in (settings.lock_timeout, settings.lease)
    ]
    connection.execute(
        sql.SQL(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off;"
            " SET LOCAL lock_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = {}"
        ).format(*milliseconds)
    )


def _retried(connection: Connection[Row], settings: Settings, attempt: Callable[[], T]) -> T:
    """Return what `attempt`, a transaction, returns; try again, with growing pauses, after an error that may pass."""
    for failures in range(1, settings.attempts):
        try:
            return attempt()
        except psycopg.Error as error:
            if error.sqlstate not in RETRIED or connection.closed:
                raise
        time.sleep(min(PAUSE_MAX_S, 0.05 * 2**failures) * random.uniform(0.5, 1))  # noqa: S311 - jitter
    return attempt()


def _give_back(connection: Connection[Row], chunk: ledger.Chunk, error: BaseException) -> None:
    """Release the chunk after an error, when the connection still can; if not, its lease runs out."""
    if connection.closed:
        return
    message = sqlstate = None
    if isinstance(error, psycopg.Error):
        # The whole message would quote the row.
        message, sqlstate = error.diag.message_primary or type(error).__name__, error.sqlstate
    with suppress(psycopg.Error):
        ledger.release(connection, chunk, error=message, sqlstate=sqlstate)


def _is_over(started: float, settings: Settings) -> bool:
    return settings.max_time is not None and time.monotonic() - started >= settings.max_time.total_seconds()


def _sum(*totals: Mapping[str, int]) -> dict[str, int]:
    names = dict.fromkeys(name for total in totals for name in total)
    return {name: sum(total.get(name, 0) for total in totals) for name in names}
