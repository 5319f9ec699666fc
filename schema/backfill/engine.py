"""Runs a job over its parent table with some workers, each batch one short transaction, until all is done and verified.

The engine knows no job's tables. A call joins the job's active run, on whatever host it was begun.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

import psycopg
from psycopg import Connection, sql

from schema.backfill import batch, claims, ledger, partition
from schema.backfill.job import Job, Row
from schema.backfill.settings import Settings
from schema.backfill.stop import End, Stop
from schema.backfill.throttle.monitor import Monitor
from schema.backfill.throttle.signal import Hold
from schema.backfill.worker import Connector, Shared, Worker
from schema.errors import DatabaseUnreachableError, MoreWorkError
from schema.models.status import ACTIVE_RUN_STATES, RunState
from schema.pg.errors import translate

POLL_S = 1.0
"""Time between two looks at the signals."""

ANALYZED_AFTER = (3, 30, 300)
"""Batches of a call after which the new tables get statistics: they were empty when the first plans were made."""


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    end: End
    run: ledger.Run | None
    """None after a dry run."""
    totals: Mapping[str, int]
    """Of the whole run, earlier calls and other hosts included."""
    parents: int
    """Parent rows done by this call."""
    seconds: float
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each phase that this call worked in, waits at its end included."""
    holds: Sequence[Hold] = ()
    """What held the call when it ended with work left."""


def run(
    connect: Connector,
    job: Job,
    settings: Settings | None = None,
    *,
    stop: Stop | None = None,
    advance: Callable[[int], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
    observe: Callable[[Connection[Row]], None] = lambda _: None,
) -> Outcome:
    """Run the job from where its active run stands, or anew, until complete, or something ends it before.

    Args:
        connect: opens the workers' connections, and one more to watch.
        job: what to do.
        settings: how.
        stop: ends the call early, from a signal handler or another thread.
        advance: told the parent rows of each batch after its commit, by one thread at a time.
        notify: told what an operator should know, such as what holds the run, by one thread at a time.
        observe: called with the watching connection about once a second, and at the end.

    Raises:
        MoreWorkError: the run is paused, or older transactions don't end.
        DatabaseError: the server can't be reached, or too many batches fail.
        psycopg.Error: a batch failed for good. What was committed stays; the same call goes on from there.
    """
    settings = settings or Settings()
    stop = stop or Stop()
    monitor = Monitor(job, settings.limits)
    started = time.monotonic()
    parents = 0

    def count(done: int) -> None:
        nonlocal parents
        parents += done
        advance(done)

    with _Control(connect) as control:
        active = join(control.connection, job, settings)
        if active.desired_state == RunState.PAUSED:
            raise MoreWorkError("the backfill is paused", hint="`schemactl backfill resume`, then run it again.")
        shared = Shared(connect, job, settings, active.id, stop, count, notify)
        _watch(control, shared, monitor, observe, [Worker(shared) for _ in range(settings.workers)])
        with suppress(psycopg.OperationalError):
            # It may have broken since the last look.
            control.connection.execute("SELECT")
        closed = ledger.get(control.connection, active.id)
        totals = closed.totals or batch.add(*(chunk.totals for chunk in claims.chunks(control.connection, active.id)))
        observe(control.connection)
    end = stop.end or End.INTERRUPTED
    if closed.finished_at is not None:
        end = End.COMPLETE if closed.state == RunState.COMPLETE else End.MISMATCH
    ended = time.monotonic()
    begun = [*shared.phases.items(), ("", ended)]
    phases = {name: after - at for (name, at), (_, after) in pairwise(begun)}
    holds = shared.holds if closed.finished_at is None else ()
    return Outcome(end, closed, totals, parents, ended - started, phases, holds)


def join(connection: Connection[Row], job: Job, settings: Settings) -> ledger.Run:
    """Return the job's active run; make one, with its chunks, when there is none."""
    latest = ledger.latest(connection, job.name)
    if latest is not None and latest.state in ACTIVE_RUN_STATES:
        return latest
    parts = partition.cut(connection, job.parent, chunk_size=settings.chunk_size, workers=settings.workers)
    return ledger.begin(connection, job.name, {"expected": parts.expected, "partition": parts.kind}, parts.bounds)


class _Control:
    """The connection that watches, opened anew when it broke.

    One for the whole call: where connections are short, another at the end might not be had.
    """

    def __init__(self, connect: Connector) -> None:
        self._connect = connect
        self._open = connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def connection(self) -> Connection[Row]:
        if self._open.closed:
            self._open = self._connect()
        return self._open


def _watch(
    control: _Control,
    shared: Shared,
    monitor: Monitor,
    observe: Callable[[Connection[Row]], None],
    workers: list[Worker],
) -> None:
    """Start the workers, once the signals were read, and read them again and again until all workers have ended."""
    threads = [threading.Thread(target=worker.run, name=f"backfill-{n}") for n, worker in enumerate(workers)]
    analyzed = 0
    try:
        begun = False
        while not begun or any(thread.is_alive() for thread in threads):
            try:
                _hold(shared, monitor.poll(control.connection))
                # A worker that is held, or rests, begins no batch in which it would see this.
                if ledger.get(control.connection, shared.run_id).desired_state == RunState.PAUSED:
                    shared.stop.request(End.PAUSED)
                if analyzed < len(ANALYZED_AFTER) and shared.batches >= ANALYZED_AFTER[analyzed]:
                    analyzed += 1
                    _analyze(control.connection, shared.job)
                observe(control.connection)
            except (psycopg.OperationalError, DatabaseUnreachableError):
                _hold(shared, (Hold("connection", "the server cannot be reached to read the signals"),))
            except psycopg.Error as error:
                _hold(shared, (Hold("signals", f"they cannot be read: {translate(error)}"),))
            if not begun:
                begun = True
                for thread in threads:
                    thread.start()
            _join(threads, POLL_S)
    except BaseException:
        shared.stop.abort()
        raise
    finally:
        _join(threads, None)
    for worker in workers:
        if worker.error is not None:
            raise worker.error


def _hold(shared: Shared, holds: tuple[Hold, ...]) -> None:
    before, shared.holds = shared.holds, holds
    if {hold.name for hold in holds} != {hold.name for hold in before}:
        shared.say(f"Held by {'; '.join(map(str, holds))}" if holds else "Nothing holds it any more")


def _join(threads: list[threading.Thread], seconds: float | None) -> None:
    deadline = None if seconds is None else time.monotonic() + seconds
    for thread in threads:
        if thread.ident is not None:
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0))


def _analyze(connection: Connection[Row], job: Job) -> None:
    """Give the new tables statistics; whoever holds a lock against that goes first."""
    for table in job.new_tables:
        try:
            with connection.transaction():
                connection.execute("SET LOCAL lock_timeout = '200ms'")
                connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(table)))
        except psycopg.Error:
            if connection.closed:
                raise
