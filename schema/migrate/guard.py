"""What goes around each revision of a run, in any project: retries, and going on after an interruption.

A lock that is not to be had in time rolls the revision's transaction back and runs the revision again. What an
autocommit block had committed by then is in the journal and is not run a second time, in this run or in a later one.
"""

import copy
import functools
import itertools
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy.engine.interfaces import DBAPICursor, ExecutionContext

from schema.errors import DatabaseError, LockTimeoutError, RevisionError
from schema.migrate.journal import Entry, Journal, Unfinished, digest, shown
from schema.migrate.lock import RunnerLock
from schema.pg.connect import is_pooled
from schema.pg.errors import translate

RETRIED: Final = frozenset({"55P03", "40P01"})
"""SQLSTATEs of a lock that was not to be had in time, and of a deadlock."""

LONGEST_PAUSE_S: Final = 5.0

# Those that read or set run again where a run goes on: the rest of the revision needs what they give.
_READS_OR_SETS = re.compile(r"(SELECT|SET|RESET|SHOW|LISTEN|DISCARD)\b")
_OWN_TRANSACTION = re.compile(r"\s*(BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE)\b", re.IGNORECASE)
_OUTSIDE_ONLY = {"25001", "2D000"}
"""SQLSTATEs of what PostgreSQL refuses inside of a transaction, and of a procedure that commits."""
_PLAINLY_OUTSIDE = re.compile(r"\bCONCURRENTLY\b|^\s*VACUUM\b", re.IGNORECASE)
_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_CONCURRENT_INDEX = re.compile(
    rf"\s*CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?({_NAME})\s+ON\s+(?:ONLY\s+)?"
    rf"({_NAME}(?:\.{_NAME})?)",
    re.IGNORECASE,
)
_INDEX = """
SELECT indexrelid::regclass::text AS name, indisvalid
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass(:table) AND relname = (parse_ident(:index))[1]
"""


class Guard:
    """The guard of one run: `start` once with the plan, then `step` for each revision of it."""

    def __init__(
        self,
        migration: MigrationContext,
        *,
        report: Callable[[str], None],
        retry_s: float,
        lock: RunnerLock | None = None,
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
        self._step: RevisionStep | None = None
        self._past: Sequence[Entry] = ()
        self._fresh: list[Entry] = []
        self._count = 0
        self._written = False
        self._in_block = False
        self._alone = False
        self._own = False
        self._block = migration.autocommit_block
        # Of this context only, which lives no longer than the run.
        setattr(migration, "autocommit_block", self._journaled_block)  # noqa: B010

    def start(self, planned: Sequence[RevisionStep]) -> None:
        """Look for a revision that an earlier run left in the middle, and say so.

        Raises:
            RevisionError: there is one, and it is not what this run begins with.
            DatabaseError: the connection goes through a pooler, and a revision cannot.
        """
        self.unfinished = self.journal.read()
        if self.unfinished is not None:
            self._recognise(self.unfinished, planned)
        if self._pooled and (blocks := [step.revision.revision for step in planned if has_block(step)]):
            raise _refused_by_pooler(", ".join(blocks))

    def step(self, step: RevisionStep) -> RevisionStep:
        """The same step, guarded.

        Raises:
            DatabaseUnreachableError: the connection that holds the runner's lock broke.
        """
        if self.lock is not None:
            self.lock.check()
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

    @property
    def _pooled(self) -> bool:
        return is_pooled(self.connection.connection.driver_connection)

    def _run(self, step: RevisionStep, function: Callable[[], None]) -> None:
        began = time.monotonic()
        for attempt in itertools.count(1):
            self._begin(step)
            try:
                function()
                self._step = None
                if self._written or self._past:
                    # In the transaction that is about to record the revision.
                    self.journal.drop()
            except sa.exc.DBAPIError as error:
                self._step = None
                pause = min(0.1 * 2**attempt, LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)  # noqa: S311
                spent = time.monotonic() - began
                if _sqlstate(error) not in RETRIED or not self._may_retry():
                    raise
                if spent + pause > self.retry_s:
                    raise _gave_up(error, attempt, spent) from error
                self._roll_back()
                self.report(f"{step.revision.revision} did not get a lock in time; attempt {attempt + 1} follows.")
                time.sleep(pause)
            else:
                self.unfinished = None
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
        self._step = step

    def _may_retry(self) -> bool:
        """Whether the transaction is this revision's alone, so that rolling it back takes nothing else along."""
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
            if self._may_retry():
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
            if self._pooled:
                raise _refused_by_pooler(self._step.revision.revision)
            # In the transaction that the block is about to commit.
            written = self._write_fresh()
        broken: sa.exc.DBAPIError | None = None
        try:
            with self._block():
                self.standing += written
                self._in_block = True
                try:
                    yield
                except sa.exc.DBAPIError as error:
                    broken = error
                    raise
                finally:
                    self._in_block = False
        except sa.exc.PendingRollbackError:
            # Alembic began the next transaction on a connection that is gone, which says nothing of the cause.
            raise broken or DatabaseError("the connection broke in an autocommit block") from None

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
                run()
                return
            if entry.committed or self._stands_after_all(statement, place):
                context.cursor = _Done(entry.row_count)  # type: ignore[assignment]
                return
        self._alone = self._alone or (self._in_block and _OWN_TRANSACTION.match(statement) is not None)
        if self._alone:
            # A block that has transactions of its own is its author's affair.
            run()
        elif not self._in_block:
            run()
            self._fresh.append(_entry(mark, statement, cursor))
        elif _PLAINLY_OUTSIDE.search(statement):
            self._outside(mark, statement, run)
        else:
            self._inside(mark, statement, cursor, run)

    def _inside(self, mark: str, statement: str, cursor: DBAPICursor, run: Callable[[], None]) -> None:
        """Run a statement of a block and record it, both or neither."""
        before = list(self._fresh)
        self.connection.exec_driver_sql("BEGIN")
        try:
            run()
            self._fresh.append(_entry(mark, statement, cursor))
            written = self._write_fresh()
        except Exception as error:
            self._fresh = before
            state = _sqlstate(error)
            if state is not None and not state.startswith(("08", "57P")):
                self.connection.exec_driver_sql("ROLLBACK")
            if state in _OUTSIDE_ONLY:
                self._outside(mark, statement, run)
                return
            raise
        self.connection.exec_driver_sql("COMMIT")
        self.standing += written

    def _outside(self, mark: str, statement: str, run: Callable[[], None]) -> None:
        """Run a statement that PostgreSQL refuses in a transaction: recorded before, and again after."""
        entry = Entry(mark, shown(statement), "once", committed=False)
        self._fresh.append(entry)
        written = self._write_fresh()
        self.standing += written[:-1]
        run()
        self.journal.done(self._count - 1)
        self.standing.append(entry)

    def _stands_after_all(self, statement: str, place: int) -> bool:
        """Whether an index build of which the journal has the beginning only came to its end; drops what is INVALID."""
        found = _CONCURRENT_INDEX.match(statement)
        names = {"index": found[1], "table": found[2]} if found else None
        row = self.connection.execute(sa.text(_INDEX), names).one_or_none() if names else None
        if row is None:
            return False
        if not row.indisvalid:
            self.connection.execute(sa.text(f"DROP INDEX CONCURRENTLY {row.name}".replace(":", r"\:")))
            return False
        self.journal.done(place)
        return True

    def _write_fresh(self) -> list[Entry]:
        """Put what ran since the last time into the journal; what only reads or sets waits for what does more."""
        if self._step is None or all(entry.kind == "again" for entry in self._fresh):
            return []
        written, self._fresh = self._fresh, []
        own, self._own = self._own, True
        try:
            place = self._count - len(written)
            self.journal.write(self._step.revision.revision, self._step.is_upgrade, place, written)
        finally:
            self._own = own
        self._written = True
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


def has_block(step: RevisionStep) -> bool:
    """Whether a revision's file speaks of an autocommit block."""
    return b"autocommit_block" in Path(step.revision.path).read_bytes()


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


def _refused_by_pooler(revisions: str) -> DatabaseError:
    return DatabaseError(
        f"the connection goes through a pooler, and {revisions} has an autocommit block, whose statements a pooler "
        "may give to another session each, without the timeouts and without a record of what committed",
        hint="Name PostgreSQL itself with --url; nothing was changed.",
    )
