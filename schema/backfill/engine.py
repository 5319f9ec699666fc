"""The loop: runs a job over its parent table, batch by batch, each one short transaction, until nothing is left.

The engine knows no job's tables. Batches go by keyset, so one costs the same at the end of the table as at its start.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import psycopg
from psycopg import Connection, sql

from schema.backfill import ledger
from schema.backfill.job import Job, Key, Parent, Row
from schema.errors import MoreWorkError
from schema.models.status import RunState

RETRIED = frozenset({"40001", "40P01", "55P03", "23503"})
"""SQLSTATEs after which the same batch is tried again: serialization, deadlock, lock timeout, and a foreign key whose
target (an image, a slot type) was deleted between our read and our insert."""

BATCH_SIZE_MAX = 10_000


@dataclass(frozen=True)
class Settings:
    """How a job is run."""

    batch_size: int = 1000
    """Parent rows per transaction."""
    max_time: timedelta | None = None
    """No batch is begun after this."""
    lease: timedelta = timedelta(seconds=30)
    """How long a chunk stays claimed without a batch."""
    lock_timeout: timedelta = timedelta(milliseconds=800)
    """How long a batch waits for one lock. Below the server's deadlock_timeout (default 1 s): in a deadlock with the
    application it is the batch that gives up, and is tried again."""
    attempts: int = 10
    """How often one batch is tried, with growing pauses of at most `pause_max` between."""
    pause_max: timedelta = timedelta(seconds=5)


class End(StrEnum):
    """Why a run of the loop ended."""

    COMPLETE = "complete"
    PAUSED = "paused"
    TIME = "time"


@dataclass(frozen=True)
class Outcome:
    """How a call of `run` ended. `totals` are those of the whole run, earlier calls included."""

    end: End
    run: ledger.Run | None
    """None after a dry run."""
    totals: Mapping[str, int]
    parents: int
    """Parent rows done by this call."""
    seconds: float


class _DryRun(Exception):  # noqa: N818 - no error: it makes the transaction block roll back
    pass


def run(
    connection: Connection[Row],
    job: Job,
    settings: Settings = Settings(),
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Run the job from where its active run stands, or anew, until done, paused or out of time.

    `connection` is used for nothing else meanwhile and has no transaction open. `advance` is told the parent rows of
    each batch after its commit.

    Raises:
        MoreWorkError: another worker is at it, or the run is paused.
        psycopg.Error: a batch failed, retries included; what was committed stays, the same call goes on from there.
    """
    started = time.monotonic()
    active = ledger.begin(
        connection, job.name, {"batch_size": settings.batch_size, "parents": count_parents(connection, job.parent)}
    )
    if active.desired_state == RunState.PAUSED:
        raise MoreWorkError("the backfill is paused", hint="`schemactl backfill resume`, then run it again.")
    parents = 0
    end = End.COMPLETE
    while end is End.COMPLETE:
        chunk = ledger.claim(connection, active.id, ledger.Owner(), settings.lease)
        if chunk is None:
            break
        try:
            for size, finished, paused in _batches(connection, job, settings, chunk):
                parents += size
                advance(size)
                if paused:
                    end = End.PAUSED
                elif settings.max_time is not None and time.monotonic() - started >= settings.max_time.total_seconds():
                    end = End.TIME
                if finished or end is not End.COMPLETE:
                    break
        except BaseException as error:
            _give_back(connection, chunk, error)
            raise
        ledger.release(connection, chunk)
    closed = ledger.finish(connection, active.id)
    if closed is None and end is End.COMPLETE:
        raise MoreWorkError(_who_works(connection, active), hint="`schemactl backfill status` shows how far it is.")
    chunks = ledger.chunks(connection, active.id)
    return Outcome(
        End.COMPLETE if closed else end,
        closed or active,
        _sum(*(chunk.totals for chunk in chunks)),
        parents,
        time.monotonic() - started,
    )


def dry_run(
    connection: Connection[Row],
    job: Job,
    settings: Settings = Settings(),
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Write every batch as `run` would, from the first, and roll each back. The active run is left alone."""
    started = time.monotonic()
    totals: Mapping[str, int] = {}
    parents = 0
    end = End.COMPLETE
    cursor: str | None = None
    finished = False
    while not finished:
        try:
            with connection.transaction():
                _prepare(connection, settings)
                row = connection.execute(
                    "INSERT INTO backfill_runs (job, state) VALUES (%s, 'complete') RETURNING id", (job.name,)
                ).fetchone()
                assert row is not None
                keys = _lock_parents(connection, job.parent, cursor, None, settings.batch_size)
                written = job.write(connection, row[0], keys)
                raise _DryRun
        except _DryRun:
            totals = _sum(totals, written, {job.parent.table: len(keys)})
            parents += len(keys)
            advance(len(keys))
            finished = len(keys) < settings.batch_size
            cursor = str(keys[-1]) if keys else cursor
        if settings.max_time is not None and time.monotonic() - started >= settings.max_time.total_seconds():
            end = end if finished else End.TIME
            break
    return Outcome(end, None, totals, parents, time.monotonic() - started)


def count_parents(connection: Connection[Row], parent: Parent) -> int:
    """Count the rows of the parent table."""
    with connection.transaction():
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(parent.table))).fetchone()
    assert row is not None
    return int(row[0])


def key_ranges(connection: Connection[Row], parent: Parent, size: int) -> Iterator[list[Key]]:
    """Yield every parent key in order, `size` at a time, each list from a read of its own."""
    cursor: str | None = None
    while True:
        with connection.transaction():
            keys = _pick(connection, parent, cursor, None, size, sql.SQL(""))
        if keys:
            yield keys
        if len(keys) < size:
            return
        cursor = str(keys[-1])


def _batches(
    connection: Connection[Row], job: Job, settings: Settings, chunk: ledger.Chunk
) -> Iterator[tuple[int, bool, bool]]:
    """Run batches of the chunk, yielding after each: its parent rows, whether it was the last, whether to pause."""
    failures = 0
    while True:
        try:
            result = _batch(connection, job, settings, chunk)
        except psycopg.Error as error:
            failures += 1
            if error.sqlstate not in RETRIED or failures >= settings.attempts or connection.closed:
                raise
            pause = min(settings.pause_max.total_seconds(), 0.05 * 2**failures)
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter
            continue
        failures = 0
        yield result


def _batch(
    connection: Connection[Row], job: Job, settings: Settings, claimed: ledger.Chunk
) -> tuple[int, bool, bool]:
    """One batch, one transaction.

    Locks in this order: the chunk's row FOR UPDATE (a worker whose lease was taken over gets no further), the parent
    rows FOR KEY SHARE by key (they stay; writers of other columns aren't blocked), then what the job says.
    """
    with connection.transaction():
        _prepare(connection, settings)
        chunk = ledger.fenced(connection, claimed)
        if chunk.desired_state == RunState.PAUSED:
            return 0, False, True
        keys = _lock_parents(connection, job.parent, chunk.cursor, chunk.upper, settings.batch_size)
        written = job.write(connection, chunk.run_id, keys) if keys else {}
        finished = len(keys) < settings.batch_size
        ledger.advance(
            connection,
            chunk,
            cursor=str(keys[-1]) if keys else None,
            written={job.parent.table: len(keys), **written},
            lease=settings.lease,
            done=finished,
        )
    return len(keys), finished, False


def _prepare(connection: Connection[Row], settings: Settings) -> None:
    """Set the transaction up; all of it ends with the transaction, as a pooler may hand the session on.

    READ COMMITTED whatever the role's default is: the job's later statements must see what others committed. UTC, so
    that timestamps without an offset mean that. No JIT: its compiling costs more than a batch. The idle limit ends the
    transaction of a process that was frozen in it, and with that its locks.
    """
    connection.execute(
        sql.SQL(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off;"
            " SET LOCAL lock_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = {}"
        ).format(_milliseconds(settings.lock_timeout), _milliseconds(settings.lease))
    )


def _milliseconds(time_: timedelta) -> sql.Literal:
    return sql.Literal(f"{int(time_.total_seconds() * 1000)}ms")


def _lock_parents(
    connection: Connection[Row], parent: Parent, cursor: str | None, upper: str | None, size: int
) -> list[Key]:
    # LIMIT counts after locking: a row deleted while we waited for it is left out, not counted.
    return _pick(connection, parent, cursor, upper, size, sql.SQL("FOR KEY SHARE"))


def _pick(
    connection: Connection[Row], parent: Parent, cursor: str | None, upper: str | None, size: int, lock: sql.SQL
) -> list[Key]:
    key, key_type = sql.Identifier(parent.key), sql.Identifier(parent.key_type)
    conditions = [
        sql.SQL("{} {} {}::text::{}").format(key, sql.SQL(operator), sql.Literal(bound), key_type)
        for operator, bound in ((">", cursor), ("<=", upper))
        if bound is not None
    ]
    where = sql.SQL("WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")
    statement = sql.SQL("SELECT {key} FROM {table} {where} ORDER BY {key} LIMIT {size} {lock}").format(
        key=key, table=sql.Identifier(parent.table), where=where, size=sql.Literal(size), lock=lock
    )
    return [row[0] for row in connection.execute(statement)]


def _give_back(connection: Connection[Row], chunk: ledger.Chunk, error: BaseException) -> None:
    """Release the chunk after an error, when the connection still can; if not, its lease runs out."""
    if connection.closed or isinstance(error, ledger.LeaseLostError):
        return
    known = isinstance(error, psycopg.Error)
    try:
        # The driver's full message may quote a row's values.
        ledger.release(
            connection,
            chunk,
            error=f"{type(error).__name__}: {error.diag.message_primary}" if known else None,
            sqlstate=error.sqlstate if known else None,
        )
    except psycopg.Error:
        return


def _who_works(connection: Connection[Row], active: ledger.Run) -> str:
    owners = sorted({chunk.owner for chunk in ledger.chunks(connection, active.id) if chunk.owner is not None})
    return f"the backfill begun {active.created_at:%Y-%m-%d %H:%M:%S %Z} is being worked on by {' and '.join(owners)}"


def _sum(*totals: Mapping[str, int]) -> dict[str, int]:
    names = dict.fromkeys(name for total in totals for name in total)
    return {name: sum(total.get(name, 0) for total in totals) for name in names}


def as_settings(batch_size: int, max_time: timedelta | None) -> Settings:
    """Settings from what an operator gave."""
    return Settings(batch_size=batch_size, max_time=max_time)


__all__: Sequence[str] = ["RETRIED", "End", "Outcome", "Settings", "count_parents", "dry_run", "key_ranges", "run"]
