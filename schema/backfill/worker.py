"""A worker: claims chunks and does their batches on a connection of its own, until the run is over or has to stop."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar
from uuid import UUID

import psycopg
from psycopg import Connection

from schema.backfill import batch, claims, keyset, phases, policy
from schema.backfill.job import Job, Row
from schema.backfill.pace import Pace
from schema.backfill.policy import Action
from schema.backfill.settings import Settings
from schema.backfill.stop import End, Stop
from schema.backfill.throttle.signal import Hold
from schema.errors import AuthenticationError, DatabaseError, DatabaseUnreachableError, MoreWorkError
from schema.models.status import RunPhase
from schema.pg.errors import translate

T = TypeVar("T")

Connector: TypeAlias = Callable[[], Connection[Row]]
"""Opens a connection in autocommit, to a server that takes writes when several are to be had."""

LOOK_S = 0.1
"""Pause between two looks at what is waited for."""

LOCK_ATTEMPTS = 3
"""How often a batch waits for a lock before it is made smaller."""


class CircuitOpenError(DatabaseError):
    """More than half of the last fifty batches failed."""

    default_hint = "What was committed stays. Find the cause of the error, then run the command again."


@dataclass
class Shared:
    """What the threads of one call share."""

    connect: Connector
    job: Job
    settings: Settings
    run_id: UUID
    stop: Stop
    advance: Callable[[int], None]
    notify: Callable[[str], None]
    started: float = field(default_factory=time.monotonic)
    lock: threading.RLock = field(default_factory=threading.RLock)
    holds: tuple[Hold, ...] = ()
    batches: int = 0
    older_since: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    """When the first worker of this call claimed a chunk in each phase."""

    def committed(self, parents: int) -> None:
        """Count a batch."""
        with self.lock:
            self.batches += 1
            if parents:
                self.advance(parents)

    def say(self, message: str) -> None:
        """Tell the operator something, one thread at a time."""
        with self.lock:
            self.notify(message)

    def entered(self, phase: str) -> None:
        """Note that work on a phase begins."""
        with self.lock:
            if phase not in self.phases:
                self.phases[phase] = time.monotonic()
                if phase != RunPhase.BATCHES:
                    self.say("Sweeping up what came meanwhile" if phase == RunPhase.SWEEP else "Verifying")

    def is_over(self) -> bool:
        """Whether the time allowed is spent."""
        limit = self.settings.max_time
        return limit is not None and time.monotonic() - self.started >= limit.total_seconds()


@dataclass
class _Trouble:
    """What has gone wrong with the batch at hand, and how it is cut for that."""

    limit: int | None = None
    """Most rows to take, while the row at fault is being found."""
    failures: int = 0
    locked: int = 0
    reread: bool = False
    mode: batch.Mode = field(default_factory=batch.Mode)

    def size(self, wanted: int) -> int:
        return wanted if self.limit is None else min(wanted, self.limit)

    def passed(self, wanted: int) -> None:
        """A batch got through: take twice as many rows, up to what was wanted."""
        limit = None if self.limit is None or self.limit * 2 >= wanted else self.limit * 2
        self.limit, self.failures, self.locked, self.reread, self.mode = limit, 0, 0, False, batch.Mode()


class Worker:
    """One of a call's workers; `run` is its thread."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._owner = claims.new_owner()
        self._pace = Pace(shared.settings)
        self._breaker = policy.Breaker()
        self._open: Connection[Row] | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Work until the run is over or a stop is requested; an error stops the others too, and stays in `error`."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for this one
            if not self._shared.stop.is_aborted:
                self.error = error
            self._shared.stop.request(None)
        finally:
            if self._open is not None:
                self._shared.stop.unwatch(self._open)
                self._open.close()

    def _work(self) -> None:
        shared = self._shared
        while not shared.stop.is_requested:
            if shared.is_over() and shared.batches:
                return shared.stop.request(End.TIME)
            chunk = self._patiently(
                partial(claims.claim, run_id=shared.run_id, owner=self._owner, lease=shared.settings.lease)
            )
            if chunk is not None:
                shared.entered(chunk.phase)
                self._chunk(chunk)
                continue
            turn = self._patiently(partial(phases.turn, run_id=shared.run_id))
            if turn.step is phases.Step.OVER:
                return None
            if turn.step is phases.Step.PAUSED:
                return shared.stop.request(End.PAUSED)
            if turn.step is phases.Step.WAIT:
                self._await_older(turn.waits_for)
                if shared.is_over():
                    return shared.stop.request(End.TIME)
                shared.stop.wait(LOOK_S)
        return None

    def _await_older(self, names: str | None) -> None:
        shared = self._shared
        now = time.monotonic()
        if names is None:
            return
        with shared.lock:
            if shared.older_since is None:
                shared.older_since = now
                shared.say(f"Waiting for transactions that are older than the run: {names}")
        if now - shared.older_since > shared.settings.older_wait.total_seconds():
            raise MoreWorkError(
                f"all batches are done, but transactions that are older than the run go on: {names}",
                hint="They may yet add rows that no batch has seen. End them, or wait, and run the command again.",
            )

    def _chunk(self, chunk: claims.Chunk) -> None:
        """Do a chunk's batches; give it back when there is no time, or no way, to end it."""
        shared = self._shared
        trouble = _Trouble()
        done = chunk.totals.get(shared.job.parent.table, 0)
        try:
            while self._may_begin(chunk):
                if chunk.upper is None:
                    # Otherwise a writer whose keys grow would be chased for as long as it is faster. What comes behind
                    # this bound is the next phase's, which sets its own; behind that of the verification, the next
                    # run's.
                    chunk = replace(chunk, upper=self._patiently(partial(keyset.last, parent=shared.job.parent)))
                wanted = self._pace.size
                size = trouble.size(wanted)
                started = time.monotonic()
                try:
                    made = batch.work(
                        self._connection(), shared.job, shared.settings, chunk, size, self._pace.rate, trouble.mode
                    )
                except (psycopg.Error, DatabaseUnreachableError) as error:
                    if shared.stop.is_aborted:
                        break
                    self._note(failed=True, error=error, counts=_is_terminal(error))
                    self._react(error, chunk, size, trouble)
                    continue
                shared.committed(made.total - done)
                done = made.total
                if made.paused:
                    shared.stop.request(End.PAUSED)
                    break
                self._note(failed=made.set_aside)
                seconds = time.monotonic() - started
                if trouble.limit is None and not made.last:
                    self._pace.note(made.parents, seconds)
                if made.waited_for:
                    self._pace.shrink()
                trouble.passed(wanted)
                if made.last:
                    return
                if shared.is_over():
                    shared.stop.request(End.TIME)
                shared.stop.wait(self._pace.rest(seconds))
        except claims.LeaseLostError as error:
            shared.say(f"{error.message}; going on with another")
            return
        except BaseException as error:
            self._give_back(chunk, error)
            raise
        self._give_back(chunk)

    def _may_begin(self, chunk: claims.Chunk) -> bool:
        """Whether to begin a batch now; waits, and keeps the chunk claimed, while a signal holds."""
        shared = self._shared
        renewed = 0.0
        while not shared.stop.is_requested and (holds := shared.holds):
            if shared.is_over():
                shared.stop.request(End.TIME)
                break
            if time.monotonic() - renewed > shared.settings.lease.total_seconds() / 3:
                reason = "; ".join(map(str, holds))
                self._patiently(partial(claims.renew, claimed=chunk, lease=shared.settings.lease, held=reason))
                renewed = time.monotonic()
            shared.stop.wait(LOOK_S)
        return not shared.stop.is_requested

    def _react(
        self, error: psycopg.Error | DatabaseUnreachableError, chunk: claims.Chunk, size: int, trouble: _Trouble
    ) -> None:
        """Set the batch up for another try, or raise the error."""
        settings = self._shared.settings
        act = _action(error)
        trouble.failures += 1
        if act is Action.REREAD:
            if not trouble.reread:
                trouble.reread = True
                return
            act = Action.BISECT
        if act is Action.BISECT:
            if size > 1:
                trouble.limit = size // 2
            elif trouble.mode.set_aside:
                raise error
            else:
                trouble.mode = batch.Mode(set_aside=True)
            return
        if act is Action.HALVE and size > 1:
            trouble.limit = size // 2
            return
        if act is Action.LOCKED:
            trouble.locked += 1
            if trouble.locked >= min(LOCK_ATTEMPTS, settings.attempts):
                if size > 1:
                    trouble.limit = max(size // 2, 1)
                    # Only the first try at each size is long: all of them wait for the same lock.
                    trouble.locked = LOCK_ATTEMPTS - 1
                    trouble.failures = 0
                elif chunk.phase == RunPhase.BATCHES:
                    trouble.mode = batch.Mode(skip=True)
                    return
        if act in (Action.ABORT, Action.HALVE) or trouble.failures >= settings.attempts:
            raise error
        self._recover(act, trouble.failures)

    def _recover(self, act: Action, failures: int) -> None:
        """Pause; leave a server that takes no writes."""
        self._shared.stop.wait(policy.pause_s(failures))
        if act is Action.PRIMARY:
            self._drop()

    def _patiently(self, operation: Callable[[Connection[Row]], T]) -> T:
        """Return what a short transaction on the ledger returns; try again after an error that may pass."""
        failures = 0
        while True:
            try:
                return operation(self._connection())
            except (psycopg.Error, DatabaseUnreachableError) as error:
                act = _action(error)
                failures += 1
                if (
                    act not in (Action.RETRY, Action.LOCKED, Action.PRIMARY)
                    or failures >= self._shared.settings.attempts
                ):
                    raise
                self._recover(act, failures)
                if self._shared.stop.is_aborted:
                    raise

    def _note(self, *, failed: bool, error: Exception | None = None, counts: bool = True) -> None:
        if counts:
            self._breaker.note(failed=failed)
        if self._breaker.is_open:
            said = translate(error) if isinstance(error, psycopg.Error) else error
            last = f"; the last one: {said}" if said else ", most of them as rows that had to be set aside"
            raise CircuitOpenError(f"more than half of the last {policy.WINDOW} batches failed{last}") from error

    def _connection(self) -> Connection[Row]:
        if self._open is None or self._open.closed:
            self._drop()
            self._open = self._connect_patiently()
            self._shared.stop.watch(self._open)
        return self._open

    def _connect_patiently(self) -> Connection[Row]:
        shared = self._shared
        deadline = time.monotonic() + shared.settings.outage.total_seconds()
        failures = 0
        while True:
            try:
                return shared.connect()
            except (psycopg.OperationalError, DatabaseUnreachableError) as error:
                failures += 1
                over = time.monotonic() > deadline or shared.is_over() or shared.stop.is_requested
                if over or isinstance(error, AuthenticationError):
                    raise
            shared.stop.wait(policy.pause_s(failures))

    def _drop(self) -> None:
        if self._open is not None:
            self._shared.stop.unwatch(self._open)
            self._open.close()
            self._open = None

    def _give_back(self, chunk: claims.Chunk, error: BaseException | None = None) -> None:
        """Release the chunk, when the connection still can; if not, its lease runs out."""
        message = sqlstate = None
        if isinstance(error, psycopg.Error):
            # The whole message would quote the row.
            known = translate(error)
            message, sqlstate = known.message if known else type(error).__name__, error.sqlstate
        elif isinstance(error, DatabaseError):
            message = error.message
        with suppress(psycopg.Error, DatabaseUnreachableError):
            claims.release(self._connection(), chunk, error=message, sqlstate=sqlstate)


def _action(error: psycopg.Error | DatabaseUnreachableError) -> Action:
    if isinstance(error, psycopg.Error):
        return policy.action(error)
    return Action.ABORT if isinstance(error, AuthenticationError) else Action.RETRY


def _is_terminal(error: Exception) -> bool:
    """Whether a failure is a batch's own, and not a step on the way to the row at fault."""
    return not isinstance(error, psycopg.Error) or policy.action(error) not in (Action.BISECT, Action.REREAD)
