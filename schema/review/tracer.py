"""Runs one revision through the project's own env.py and observes every statement that the revision file sends."""

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

from schema.errors import ConfigError, RevisionError
from schema.pg.catalog import Snapshot
from schema.pg.target import Target
from schema.review.facts import Changed, Lock, LockMode, Relation, Statement
from schema.review.observe import State, Window, scanned, watch, written

_ALONE_ONLY = frozenset({"25001", "2D000"})
"""SQLSTATEs of what cannot run inside a transaction block: CONCURRENTLY, VACUUM, a procedure that commits."""

_KEPT = ("options", "application_name", "connect_timeout", "prepare_threshold", "autocommit")
"""Arguments of a connection that say how it behaves, and not which database it goes to."""

_CHANGELESS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "SHOW", "SET"})
"""What the server calls statements that Alembic and env.py send between those of a revision."""

TELLING = {"client_min_messages": "debug1"}
"""Settings of a connection that is observed."""

_DRIVERS = frozenset({"psycopg", "psycopg_async"})


class InjectedError(RevisionError):
    """Raised by the tracer in place of a statement, to see what a failure leaves behind."""


@contextmanager
def ended() -> Iterator[None]:
    """End every session that SQLAlchemy opens meanwhile: an env.py may leave its pool, or a transaction, open."""
    opened: list[Any] = []

    def note(_: object, record: Any) -> None:
        # The connection itself, so that its end does not depend on when the env.py's engine is collected.
        opened.append(record.driver_connection)

    sa.event.listen(sa.Pool, "connect", note)
    try:
        yield
    finally:
        sa.event.remove(sa.Pool, "connect", note)
        for connection in opened:
            if hasattr(connection, "pgconn"):
                connection.pgconn.finish()


@dataclass
class Tracer:
    """Observes the statements that one revision file sends while `observing` is in force."""

    target: Target
    path: Path
    existing: frozenset[int]
    """Relations that count: those that existed before the set of revisions under review."""
    ignored: Collection[str]
    """Tables that are Alembic's own, such as `public.alembic_version`."""
    fail_before: int | None = None
    """Number of the statement to raise an error in place of."""
    observe: bool = True
    known: dict[int, Relation] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    sent: int = 0
    injected: bool = False
    """The error was raised."""
    last: Snapshot | None = None
    """The catalogs as they are, while nothing happens that is not observed."""
    _windows: dict[int, tuple[object, Window]] = field(default_factory=dict)
    _transactions: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Send every PostgreSQL connection made meanwhile to the scratch database, and observe what it executes."""
        listeners: dict[str, Callable[..., Any]] = {
            "do_connect": self._connecting,
            "rollback": self._undone,
            "rollback_savepoint": self._undone,
            "do_execute": lambda cursor, statement, parameters, context: self._executing(
                # With parameters, even none, the driver takes %% for a percent sign.
                statement.replace("%%", "%"),
                context,
                lambda: cursor.execute(statement, parameters),
                cursor,
            ),
            "do_execute_no_params": lambda cursor, statement, context: self._executing(
                statement, context, lambda: cursor.execute(statement), cursor
            ),
            "do_executemany": lambda cursor, statement, parameters, context: self._executing(
                statement, context, lambda: cursor.executemany(statement, parameters), cursor
            ),
        }
        for name, listener in listeners.items():
            sa.event.listen(sa.Engine, name, listener)
        try:
            with ended():
                yield
        finally:
            for name, listener in listeners.items():
                sa.event.remove(sa.Engine, name, listener)

    def _connecting(self, dialect: sa.Dialect, _record: object, arguments: list[Any], keywords: dict[str, Any]) -> None:
        if dialect.name != "postgresql" or dialect.driver not in _DRIVERS:
            raise ConfigError(
                f"the project connects by {dialect.name}+{dialect.driver}, and a review observes psycopg 3 only",
                hint="Let env.py take the driver from sqlalchemy.url, and give that as postgresql+psycopg://.",
            )
        given, named = dialect.create_connect_args(self.target.url.set(drivername=f"postgresql+{dialect.driver}"))
        kept = {name: keywords[name] for name in _KEPT if name in keywords}
        arguments[:] = given
        keywords.clear()
        keywords.update(named)
        keywords.update(kept)
        given_options = str(keywords.get("options") or os.environ.get("PGOPTIONS", ""))
        keywords["options"] = " ".join(filter(None, [given_options, *(f"-c {n}={v}" for n, v in TELLING.items())]))

    def _undone(self, *_: object) -> None:
        self.last = None

    def _executing(self, text: str, context: Any, run: Callable[[], object], cursor: Any) -> bool:
        line = self._line()
        if line is None or not self.observe:
            if line is not None:
                self._count()
            run()
            if getattr(cursor, "statusmessage", None) is None or cursor.statusmessage.split(" ")[0] not in _CHANGELESS:
                self.last = None
            return True
        self._count()
        window = self._window(context.root_connection.connection.driver_connection)
        if window is None or not window.usable:
            self.last = None
            run()
            return True
        self._observe(window, text, line, run, cursor, context)
        return True

    def _count(self) -> None:
        self.sent += 1
        if self.fail_before == self.sent:
            self.injected = True
            raise InjectedError(f"a failure in place of statement {self.sent}, made by the review")

    def _line(self) -> int | None:
        """Line of the revision file that is being executed; None when something else sends the statement."""
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - what `inspect` uses too, without reading sources
        path = str(self.path)
        while frame is not None:
            if frame.f_code.co_filename == path:
                return frame.f_lineno
            frame = frame.f_back
        # Under an async driver the revision runs in a greenlet, whose stack is its own and is seen all the same.
        return None

    def _window(self, driver_connection: Any) -> Window | None:
        if not hasattr(driver_connection, "pgconn"):
            return None
        found = self._windows.get(id(driver_connection))
        if found is None:
            found = self._windows[id(driver_connection)] = (driver_connection, Window(driver_connection))
        return found[1]

    def _observe(
        self, window: Window, text: str, line: int, run: Callable[[], object], cursor: Any, context: Any
    ) -> None:
        alone = window.idle and bool(getattr(context.root_connection.connection.driver_connection, "autocommit", False))
        snapshot = self.last or window.snapshot()
        if window.idle:
            # As the driver does before its first statement; for a statement alone, so that its locks outlive it.
            window.execute("BEGIN")
        before = window.state()
        window.notices()
        facts = _Facts(self, text, line, alone, before, snapshot)
        started = time.monotonic()
        try:
            run()
        except Exception as error:
            if alone:
                window.execute("ROLLBACK")
                if getattr(error, "sqlstate", None) in _ALONE_ONLY:
                    self._observe_alone(window, facts, run, cursor)
                    return
            facts.seconds = time.monotonic() - started
            self._add(facts.failed(window, error))
            self.last = None
            raise
        facts.seconds = time.monotonic() - started
        facts.rows = cursor.rowcount if cursor.rowcount >= 0 else None
        if not window.usable or window.idle:
            # The statement ended the transaction by itself.
            self.last = None
            self._add(facts.failed(window, None))
            return
        after = window.state()
        changed = _catalogs_changed(before, after)
        self.last = window.snapshot() if changed else snapshot
        statement = facts.done(window, after, self.last)
        if alone:
            window.execute("COMMIT")
        self._add(statement)

    def _observe_alone(self, window: Window, facts: "_Facts", run: Callable[[], object], cursor: Any) -> None:
        window.notices()
        started = time.monotonic()
        error: Exception | None = None
        tables = [each for each in facts.before.relations.values() if each.kind in "rp"]

        def attempt() -> None:
            nonlocal error
            try:
                run()
            except Exception as raised:  # noqa: BLE001 - raised again below, when the watcher has ended
                error = raised

        locks = watch(self.target, window.pid, tables, attempt)
        facts.seconds = time.monotonic() - started
        facts.rows = cursor.rowcount if error is None and cursor.rowcount >= 0 else None
        if not window.usable:
            self._add(facts.failed(window, error))
        else:
            self.last = window.snapshot()
            after = window.state()
            seen = replace(after, locks=frozenset(locks), counts={}, transaction="")
            self._add(facts.done(window, seen, self.last, error))
        if error is not None:
            raise error

    def _add(self, statement: Statement) -> None:
        self.statements.append(statement)

    def number_of(self, transaction: str, *, alone: bool) -> int:
        """Number of a transaction within the revision; a statement that runs alone is one by itself."""
        key = f"alone {len(self.statements)}" if alone else transaction
        return self._transactions.setdefault(key, len(self._transactions) + 1)

    def counts(self, relation: Relation | None) -> bool:
        """Whether a relation is one that the review is about."""
        if relation is None or relation.oid not in self.existing:
            return False
        owner = relation if relation.table is None else self.known.get(relation.table, relation)
        return owner.name not in self.ignored


@dataclass
class _Facts:
    tracer: Tracer
    text: str
    line: int
    alone: bool
    before: State
    snapshot: Snapshot
    seconds: float = 0.0
    rows: int | None = None

    def done(self, window: Window, after: State, snapshot: Snapshot, error: Exception | None = None) -> Statement:
        known, counts = self.tracer.known, self.tracer.counts
        was, now = self.before.relations, after.relations
        both = [(was[oid], now[oid]) for oid in was.keys() & now.keys()]
        changes = _changes(self.snapshot, snapshot, self.tracer.ignored)
        return self._statement(
            window,
            error,
            locks=self._locks(after.locks - (frozenset() if self.alone else self.before.locks)),
            created=tuple(now[oid] for oid in sorted(now.keys() - was.keys())),
            dropped=tuple(was[oid] for oid in sorted(was.keys() - now.keys()) if counts(was[oid])),
            renamed=tuple((old, new) for old, new in both if old.name != new.name and counts(old)),
            columns={old.oid: new.columns for old, new in both if old.columns != new.columns},
            rewritten=tuple(new for old, new in both if old.filenode != new.filenode and counts(old)),
            scanned={oid: n for oid, n in scanned(self.before, after).items() if counts(known.get(oid))},
            written={oid: n for oid, n in written(self.before, after).items() if counts(known.get(oid))},
            changes=changes,
        )

    def failed(self, window: Window, error: Exception | None) -> Statement:
        return self._statement(window, error)

    def _statement(self, window: Window, error: Exception | None, **facts: Any) -> Statement:
        cause = getattr(error, "orig", None) or error
        return Statement(
            number=len(self.tracer.statements) + 1,
            text=self.text.strip(),
            path=self.tracer.path,
            line=self.line,
            transaction=self.tracer.number_of(self.before.transaction, alone=self.alone),
            alone=self.alone,
            seconds=self.seconds,
            rows=self.rows,
            lock_timeout_ms=self.before.lock_timeout_ms,
            statement_timeout_ms=self.before.statement_timeout_ms,
            held=() if self.alone else self._locks(self.before.locks),
            relations=self.before.relations,
            notices=window.notices(),
            sqlstate=getattr(cause, "sqlstate", None),
            error=_message(cause) if cause is not None else None,
            key=_key(cause),
            **facts,
        )

    def _locks(self, locks: Collection[tuple[int, LockMode]]) -> tuple[Lock, ...]:
        known = self.tracer.known
        found = [Lock(known[oid], mode) for oid, mode in locks if self.tracer.counts(known.get(oid))]
        return tuple(sorted(found, key=lambda each: (-each.mode, each.relation.is_index, each.relation.name)))


def _catalogs_changed(before: State, after: State) -> bool:
    if after.catalog_writes is None or before.catalog_writes is None:
        return True
    earlier = before.catalog_writes if before.transaction == after.transaction else 0
    return after.catalog_writes != earlier


def _changes(before: Snapshot, after: Snapshot, ignored: Collection[str]) -> tuple[Changed, ...]:
    if before is after:
        return ()
    one, other = before.objects, after.objects
    return tuple(
        Changed(key, one.get(key), other.get(key))
        for key in {**one, **other}
        if one.get(key) != other.get(key) and not any(key.identity.startswith(name) for name in ignored)
    )


_TWICE = re.compile(r"\((?P<columns>.+?)\)=\(")


def _key(error: BaseException | None) -> tuple[str, str] | None:
    """What a message such as `Key (number)=(1) is duplicated.` is about."""
    if not isinstance(error, psycopg.errors.UniqueViolation) or not error.diag.table_name:
        return None
    found = _TWICE.search(error.diag.message_detail or "")
    names = sql.Identifier(error.diag.schema_name or "public", error.diag.table_name)
    return (names.as_string(None), found["columns"]) if found else None


def _message(error: BaseException) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return f"{type(error).__name__}: {error}"
