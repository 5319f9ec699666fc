"""What goes around each revision of a run, in any project: retries, and going on after an interruption.

A lock that is not to be had in time rolls the revision's transaction back and runs the revision again. What an
autocommit block had committed by then is in the journal and is not run a second time, in this run or in a later one.
"""

import copy
import dataclasses
import functools
import itertools
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy.engine.interfaces import DBAPICursor, ExecutionContext

from schema.errors import DatabaseError, LockTimeoutError, RevisionError
from schema.migrate.journal import Entry, Journal, Unfinished, digest, shown
from schema.migrate.leftovers import came_to_its_end, is_harmless_again, is_index_command
from schema.migrate.lock import RunnerLock
from schema.migrate.pooled import PooledSettings
from schema.pg.connect import is_pooled, local_settings
from schema.pg.errors import translate

RETRIED: Final = frozenset({"55P03", "40P01"})
"""SQLSTATEs of a lock that was not to be had in time, and of a deadlock."""

LONGEST_PAUSE_S: Final = 5.0

# Those that read or set run again where a run goes on: the rest of the revision needs what they give.
_READS_OR_SETS = re.compile(r"(SELECT|SET|RESET|SHOW|LISTEN|DISCARD)\b")
_SETS = re.compile(r"\s*(SET|RESET)\s[^;]*;?\s*", re.IGNORECASE)
_OWN_TRANSACTION = re.compile(r"\s*(BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE)\b", re.IGNORECASE)
_BEGINS = re.compile(r"\s*(BEGIN|START)\b", re.IGNORECASE)
_OUTSIDE_ONLY = {"25001", "2D000"}
"""SQLSTATEs of what PostgreSQL refuses inside of a transaction, and of a procedure that commits."""
_PLAINLY_OUTSIDE = re.compile(r"\bCONCURRENTLY\b|^\s*VACUUM\b", re.IGNORECASE)


class Guard:
    """The guard of one run: `start` once with the plan, then `step` for each revision of it."""

    def __init__(
        self,
        migration: MigrationContext,
        *,
        report: Callable[[str], None],
        retry_s: float,
        timeouts: Mapping[str, str],
        lock: RunnerLock,
    ) -> None:
        assert migration.connection is not None
        self.migration = migration
        self.connection = migration.connection
        self.report = report
        self.retry_s = retry_s
        self.lock = lock
        self.journal = Journal(migration)
        self.unfinished: Unfinished | None = None
        self.standing: list[Entry] = []
        """Statements of the revision under way that stand committed."""
        self.kept = 0
        """How many revisions a block of a later one has committed, where all have one transaction."""
        self._begun = 0
        self._step: RevisionStep | None = None
        self._past: Sequence[Entry] = ()
        self._fresh: list[Entry] = []
        self._count = 0
        self._written = False
        self._in_block = False
        self._alone = False
        self._own = False
        self._pool: PooledSettings | None = None
        if is_pooled(lock.connection):
            own = local_settings(self.connection.connection.driver_connection)
            self._pool = PooledSettings(self.connection, {**own, **timeouts}, report)
        self._block = migration.autocommit_block
        # Of this context only, which lives no longer than the run.
        setattr(migration, "autocommit_block", self._journaled_block)  # noqa: B010

    def start(self, planned: Sequence[RevisionStep]) -> None:
        """Look for a revision that an earlier run left in the middle, and say so.

        Raises:
            RevisionError: there is one, and it is not what this run begins with.
        """
        self.unfinished = self.journal.read()
        if self.unfinished is not None:
            self._recognise(self.unfinished, planned)

    def step(self, step: RevisionStep) -> RevisionStep:
        """The same step, guarded.

        Raises:
            DatabaseUnreachableError: the connection that holds the runner's lock broke.
        """
        self.lock.check()
        self._begun += 1
        guarded = copy.copy(step)
        original = step.migration_fn

        @functools.wraps(original)
        def run(**keywords: Any) -> None:
            self._run(step, functools.partial(original, **keywords))

        guarded.migration_fn = run
        return guarded

    @contextmanager
    def listening(self) -> Iterator[None]:
        """See every statement of the run's connection."""
        dialect = self.connection.dialect
        hooks: dict[str, Callable[..., bool]] = {
            "do_execute": self._on_execute,
            "do_executemany": self._on_execute,
            "do_execute_no_params": self._on_execute_no_params,
        }
        for name, hook in hooks.items():
            sa.event.listen(dialect, name, hook)
        try:
            yield
        finally:
            for name, hook in hooks.items():
                sa.event.remove(dialect, name, hook)

    def _run(self, step: RevisionStep, function: Callable[[], None]) -> None:
        began = time.monotonic()
        for attempt in itertools.count(1):
            self._begin(step)
            try:
                function()
                self._step = None
                # In the transaction that is about to record the revision. EXCLUSIVE lets others read, and whoever has
                # a row of it locked is waited for here, where a retry follows, and not in Alembic's own UPDATE.
                self.connection.execute(sa.text(f"LOCK TABLE {self.journal.version_table} IN EXCLUSIVE MODE"))
                if self._written or self._past:
                    self.journal.drop()
            except sa.exc.DBAPIError as error:
                self._step = None
                pause = min(0.1 * 2**attempt, LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)  # noqa: S311
                spent = time.monotonic() - began
                if _sqlstate(error) not in RETRIED or not self.own_transactions():
                    raise
                if spent + pause > self.retry_s:
                    raise _gave_up(error, attempt, spent) from error
                self._roll_back()
                self.report(f"{step.revision.revision} did not get a lock in time; attempt {attempt + 1} follows.")
                time.sleep(pause)
            else:
                self.unfinished = None
                self._written = False
                return
            finally:
                self._step = None

    def _begin(self, step: RevisionStep) -> None:
        if self._written:
            self.unfinished = self.journal.read()
        self._past = self.unfinished.entries if self.unfinished is not None else ()
        self.standing = [entry for entry in self._past if entry.committed]
        self._fresh, self._count = [], 0
        self._written = self._in_block = self._alone = False
        if self._pool is not None:
            self._pool.start()
            self._pool.apply()
        self._step = step

    def own_transactions(self) -> bool:
        """Whether each revision has a transaction of its own, so that rolling it back takes nothing else along."""
        return bool(self.migration.opts.get("transaction_per_migration")) and not (
            self.migration._in_external_transaction  # noqa: SLF001
        )

    def _roll_back(self) -> None:
        """Roll back below SQLAlchemy, whose transaction object Alembic holds; the driver begins a new one itself."""
        driver = self.connection.connection.dbapi_connection
        assert driver is not None
        driver.rollback()
        # Before the first revision it was made in the same transaction.
        self.migration._ensure_version_table()  # noqa: SLF001

    def _recognise(self, unfinished: Unfinished, planned: Sequence[RevisionStep]) -> None:
        way = "upgrade to" if unfinished.is_upgrade else "downgrade from"
        message = f"an earlier run ended in the middle of the {way} {unfinished.revision}: {unfinished}"
        first = planned[0] if planned else None
        if first and (first.revision.revision, first.is_upgrade) == (unfinished.revision, unfinished.is_upgrade):
            self.report(f"Note: {message}. This run goes on after that.")
        elif (unfinished.revision in self._applied()) is unfinished.is_upgrade:
            # Somebody finished it by hand and stamped it.
            self.journal.drop()
            if self.own_transactions():
                self.connection.commit()
            self.unfinished = None
        elif first:
            command = "upgrade" if unfinished.is_upgrade else "downgrade"
            raise RevisionError(
                message,
                hint=f"`schemactl {command}` goes on after that; or undo it by hand, then DROP TABLE "
                f"{self.journal.name}.",
            )
        else:
            self.report(f"Warning: {message}.")

    def _applied(self) -> set[str]:
        assert self.migration.environment_context is not None
        heads = self.migration.get_current_heads()
        below = self.migration.environment_context.script.iterate_revisions(heads or "base", "base")
        return {script.revision for script in below}

    @contextmanager
    def _journaled_block(self) -> Iterator[None]:
        written: list[Entry] = []
        if self._step is not None:
            # In the transaction that the block is about to commit.
            written = self._write_fresh()
        broken: BaseException | None = None
        try:
            with self._block():
                self._stands(written)
                self.kept = self._begun - 1
                self._in_block = True
                try:
                    yield
                except BaseException as error:
                    broken = error
                    raise
                finally:
                    self._in_block = False
        except sa.exc.PendingRollbackError:
            # Alembic began the next transaction on a connection that is gone, which says nothing of the cause.
            raise broken or DatabaseError("the connection broke in an autocommit block") from None
        self._apply()

    def _apply(self) -> None:
        """Behind a pooler: make the settings of the transaction that has just begun."""
        if self._pool is not None and self._step is not None:
            own, self._own = self._own, True
            try:
                self._pool.apply()
            finally:
                self._own = own

    def _on_execute_no_params(self, cursor: DBAPICursor, statement: str, context: ExecutionContext) -> bool:
        return self._on_execute(cursor, statement, None, context)

    def _on_execute(self, cursor: DBAPICursor, statement: str, parameters: Any, context: ExecutionContext) -> bool:
        """Run one statement of a revision in SQLAlchemy's place, or not, when the journal has it as committed."""
        if self._step is None or self._own or context.root_connection is not self.connection:
            return False
        self._own = True
        try:
            self._statement(cursor, statement, parameters, context)
        finally:
            self._own = False
        return True

    def _statement(self, cursor: DBAPICursor, statement: str, parameters: Any, context: ExecutionContext) -> None:
        place = self._count
        self._count += 1
        mark = digest(statement, parameters)
        run = functools.partial(_execute, cursor, statement, parameters, context)
        if place < len(self._past):
            entry = self._past[place]
            if entry.committed and entry.digest != mark:
                raise self._lost(place, f"is now: {shown(statement)}")
            if entry.committed and entry.kind == "rows":
                raise self._lost(place, "is needed again for the rows that it returned")
            if entry.committed and entry.kind == "again":
                self._again(statement, context, run)
                return
            if not entry.committed and came_to_its_end(self.connection, statement) and entry.digest == mark:
                self.journal.done(place)
                entry = dataclasses.replace(entry, committed=True)
            if entry.committed:
                context.cursor = _Done(entry.row_count)  # type: ignore[assignment]
                return
        self._alone = self._alone or (self._in_block and _OWN_TRANSACTION.match(statement) is not None)
        if self._alone:
            # A block that has transactions of its own is its author's affair.
            run()
            if _BEGINS.match(statement):
                self._apply()
        elif _SETS.fullmatch(statement):
            self._again(statement, context, run)
            self._fresh.append(Entry(mark, shown(statement), "again"))
        elif not self._in_block:
            run()
            self._fresh.append(_entry(mark, statement, cursor))
        elif _PLAINLY_OUTSIDE.search(statement):
            self._outside(mark, statement, run)
        else:
            self._inside(mark, statement, cursor, run)

    def _again(self, statement: str, context: ExecutionContext, run: Callable[[], None]) -> None:
        """Run what only reads or sets."""
        if self._pool is None:
            run()
            return
        if self._pool.takes(statement):
            context.cursor = _Done(-1)  # type: ignore[assignment]
            run = self._apply
        with self._transaction() if self._in_block else nullcontext():
            run()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction in a block."""
        self.connection.exec_driver_sql("BEGIN")
        try:
            self._apply()
            yield
        except Exception as error:
            # A connection that is gone takes its transaction along.
            driver = self.connection.connection.dbapi_connection
            if not (getattr(driver, "closed", False) or (_sqlstate(error) or "").startswith(("08", "57P"))):
                self.connection.exec_driver_sql("ROLLBACK")
            raise
        self.connection.exec_driver_sql("COMMIT")

    def _inside(self, mark: str, statement: str, cursor: DBAPICursor, run: Callable[[], None]) -> None:
        """Run a statement of a block and record it, both or neither."""
        before = list(self._fresh)
        try:
            with self._transaction():
                run()
                self._fresh.append(_entry(mark, statement, cursor))
                written = self._write_fresh()
        except Exception as error:
            self._fresh = before
            if _sqlstate(error) not in _OUTSIDE_ONLY:
                raise
            self._outside(mark, statement, run)
        else:
            self._stands(written)

    def _outside(self, mark: str, statement: str, run: Callable[[], None]) -> None:
        """Run a statement that PostgreSQL refuses in a transaction: recorded before, and again after."""
        if self._pool is not None:
            self._pool.check_outside(statement)
        if is_harmless_again(statement):
            # Noted with the next one: until that has begun, it may as well run again.
            run()
            self._fresh.append(Entry(mark, shown(statement), "once"))
            return
        entry = Entry(mark, shown(statement), "once", committed=False)
        self._fresh.append(entry)
        self._stands(self._write_fresh(ahead=True))
        run()
        self.journal.done(self._count - 1, hurried=is_index_command(statement))
        self.standing.append(entry)

    def _stands(self, written: Sequence[Entry]) -> None:
        """What was written to the journal has been committed."""
        self._written = self._written or bool(written)
        self.standing += [entry for entry in written if entry.committed]

    def _write_fresh(self, *, ahead: bool = False) -> list[Entry]:
        """Put what ran since the last time into the journal; what only reads or sets waits for what does more."""
        if self._step is None or all(entry.kind == "again" for entry in self._fresh):
            return []
        written, self._fresh = self._fresh, []
        own, self._own = self._own, True
        try:
            place = self._count - len(written)
            if not self._written and not self._past:
                self.journal.make(ahead=ahead)
            self.journal.write(self._step.revision.revision, self._step.is_upgrade, place, written, ahead=ahead)
        finally:
            self._own = own
        return written

    def _lost(self, place: int, how: str) -> RevisionError:
        assert self._step is not None
        return RevisionError(
            f"it cannot go on where an earlier run ended: statement {place + 1}, which stands committed, was "
            f"{self._past[place]}, and {how}",
            hint=f"Finish or undo by hand what stands committed, then DROP TABLE {self.journal.name}; after "
            "finishing, `alembic stamp` says so.",
        )


class _Done:
    """The cursor of a statement that ran earlier."""

    description = None

    def __init__(self, row_count: int) -> None:
        self.rowcount = row_count

    def close(self) -> None:
        """Nothing is open."""


def _entry(mark: str, statement: str, cursor: DBAPICursor) -> Entry:
    # psycopg tells what the server says it did; another driver's statement is taken by its first word.
    if _READS_OR_SETS.match(getattr(cursor, "statusmessage", None) or statement.lstrip().upper()):
        kind = "again"
    else:
        kind = "once" if cursor.description is None else "rows"
    return Entry(mark, shown(statement), kind, cursor.rowcount)


def _execute(cursor: DBAPICursor, statement: str, parameters: Any, context: ExecutionContext) -> None:
    dialect = context.dialect
    if parameters is None:
        dialect.do_execute_no_params(cursor, statement, context)
    elif context.executemany:
        dialect.do_executemany(cursor, statement, parameters, context)
    else:
        dialect.do_execute(cursor, statement, parameters, context)


def _sqlstate(error: BaseException | None) -> str | None:
    if isinstance(error, sa.exc.DBAPIError):
        error = error.orig
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return str(state) if state else None


def _gave_up(error: sa.exc.DBAPIError, attempts: int, seconds: float) -> LockTimeoutError:
    known = translate(error)
    assert known is not None
    times = "once" if attempts == 1 else f"{attempts} times"
    return LockTimeoutError(f"{known.message}, tried {times} in {seconds:.1f} s")
