"""Looks at a backend through a second handle on its own connection, or from another session while it is busy."""

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from schema.pg.catalog import Snapshot, read_snapshot
from schema.pg.connect import connect
from schema.pg.target import Target
from schema.review.facts import LockMode, Relation, Written

_POLL_S = 0.002
_BLOCKER_WAIT_MS = 500

TELLING = (
    *("rewriting table ", "verifying table ", "building index ", "validating foreign key constraint "),
    *("existing constraints on column ", "partition constraint ", "updated partition constraint ", "truncate cascades"),
)
"""How the messages at debug1 begin that say what a statement does."""

_RELATIONS = """
    SELECT c.oid::bigint, format('%I.%I', n.nspname, c.relname), c.relkind::text, c.relfilenode::bigint,
        i.indrelid::bigint, coalesce(i.indisvalid, true), c.reltuples,
        CASE WHEN c.relkind IN ('r', 'p') THEN coalesce((
            SELECT string_agg(concat(a.attnum, ' ', quote_ident(a.attname)), E'\n' ORDER BY a.attnum)
            FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '') ELSE '' END
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
    WHERE c.relkind IN ('r', 'p', 'm', 'i', 'I', 'v', 'S', 'f') AND c.relpersistence <> 't'
        AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"""


def _milliseconds(name: str) -> str:
    # Printed with a unit, which an interval understands; pg_settings would print all settings for it.
    return f"round(extract(epoch FROM current_setting('{name}')::interval) * 1000)::int"


_STATE = f"""
    {_RELATIONS};
    SELECT relation::bigint, mode FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    SELECT relid::bigint, seq_tup_read, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables
    WHERE seq_tup_read + n_tup_ins + n_tup_upd + n_tup_del > 0;
    SELECT virtualtransaction FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'virtualxid' LIMIT 1;
    SELECT {_milliseconds("lock_timeout")}, {_milliseconds("statement_timeout")};
    SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_xact_sys_tables
    WHERE current_setting('track_counts')::boolean"""

_BUSY = """
    SELECT l.relation::bigint, l.mode, a.wait_event_type = 'Lock'
    FROM pg_stat_activity AS a LEFT JOIN pg_locks AS l ON l.pid = a.pid AND l.locktype = 'relation'
        AND l.database = a.datid
    WHERE a.pid = %s"""


@dataclass(frozen=True)
class State:
    """A backend at one moment."""

    relations: Mapping[int, Relation]
    locks: frozenset[tuple[int, LockMode]]
    counts: Mapping[int, tuple[int, int, int, int]]
    """Of this transaction: tuples read by sequential scans, inserted, updated, deleted."""
    transaction: str
    lock_timeout_ms: int
    statement_timeout_ms: int
    catalog_writes: int | None
    """Rows of catalogs that this transaction wrote; None where the server does not count."""


class Window:
    """A second handle on a driver's connection: what it asks runs in the same session and transaction.

    It works for psycopg's sync and async connections alike, since both stand on the same libpq connection; the driver
    itself is idle whenever the handle is used.
    """

    def __init__(self, driver_connection: Any) -> None:
        self.pgconn = driver_connection.pgconn
        self._handle = psycopg.Connection(self.pgconn)
        # The session belongs to the driver's connection: this one must not complain when it goes unclosed.
        setattr(self._handle, "_pool", None)  # noqa: B010 - not declared
        self._handle.add_notice_handler(self._note)
        # Never begins a transaction by itself. The property refuses when the driver has begun one already.
        setattr(self._handle, "_autocommit", True)  # noqa: B010 - not declared
        self._handle.prepare_threshold = None
        self._notices: list[str] = []

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        # At debug1 the server also tells about its own caches.
        text = diagnostic.message_primary or ""
        # A toast table is part of its table, and told by that.
        if '"pg_toast_' in text:
            return
        if diagnostic.severity_nonlocalized in {"NOTICE", "WARNING"} or text.startswith(TELLING):
            self._notices.append(text)

    @property
    def pid(self) -> int:
        """Process id of the backend."""
        return self._handle.info.backend_pid

    @property
    def idle(self) -> bool:
        """The session is outside of a transaction block."""
        return bool(self.pgconn.transaction_status == TransactionStatus.IDLE)

    @property
    def usable(self) -> bool:
        """The session can be asked: it lives, and its transaction has not failed."""
        return self.pgconn.transaction_status in {TransactionStatus.IDLE, TransactionStatus.INTRANS}

    def notices(self) -> tuple[str, ...]:
        """What the server said since the last call."""
        said, self._notices = tuple(self._notices), []
        return said

    def execute(self, statement: str) -> None:
        """Run a statement of the tracer's own."""
        self._handle.execute(sql.SQL(statement))

    def state(self) -> State:
        """Look at the session."""
        with self._handle.cursor() as cursor:
            cursor.execute(sql.SQL(_STATE))
            relations, locks, counts, transaction, settings, writes = [result.fetchall() for result in cursor.results()]
        return State(
            {row[0]: Relation(*row) for row in relations},
            frozenset((oid, LockMode.of(mode)) for oid, mode in locks),
            {row[0]: (row[1], row[2], row[3], row[4]) for row in counts},
            transaction[0][0] if transaction else "",
            settings[0][0],
            settings[0][1],
            writes[0][0],
        )

    def snapshot(self) -> Snapshot:
        """The catalogs as the session's transaction sees them."""
        return read_snapshot(self._handle)


def written(before: State, after: State) -> dict[int, Written]:
    """Rows that were written between two looks within one transaction."""
    found = {}
    for oid, (_, *counts) in after.counts.items():
        earlier = before.counts.get(oid, (0, 0, 0, 0))[1:] if before.transaction == after.transaction else (0, 0, 0)
        delta = Written(*(now - then for now, then in zip(counts, earlier, strict=True)))
        if delta.total:
            found[oid] = delta
    return found


def scanned(before: State, after: State) -> dict[int, int]:
    """Tuples that sequential scans read between two looks within one transaction."""
    same = before.transaction == after.transaction
    found = {
        oid: counts[0] - (before.counts.get(oid, (0, 0, 0, 0))[0] if same else 0)
        for oid, counts in after.counts.items()
    }
    return {oid: tuples for oid, tuples in found.items() if tuples > 0}


def relations(connection: psycopg.Connection[Any]) -> dict[int, Relation]:
    """Every relation of the database that is not the server's own, by oid."""
    rows = connection.execute(sql.SQL(_RELATIONS)).fetchall()
    return {row[0]: Relation(*row) for row in rows}


def watch(target: Target, pid: int, tables: list[Relation], run: Callable[[], None]) -> set[tuple[int, LockMode]]:
    """Run a statement that commits by itself, and return the relation locks that its backend took or asked for.

    A blocker holds ROW EXCLUSIVE on every table, as a writing application does, so that what waits for writers waits
    for it; it lets go when the backend is seen waiting, and when nobody looks any longer. It holds no snapshot, so
    nothing waits for that. A third session, in autocommit, reads pg_locks. Neither takes a lock that the backend waits
    for after the blocker has gone, so there is no circle. What another session of the revision holds so strongly that
    the blocker gets no lock is not waited for.
    """
    seen: set[tuple[int, LockMode]] = set()
    done = threading.Event()
    with ExitStack() as stack:
        blocker = stack.enter_context(
            connect(target, application_name="schemactl review blocker", lock_timeout_ms=_BLOCKER_WAIT_MS)
        )
        watcher = stack.enter_context(connect(target, application_name="schemactl review watch", autocommit=True))

        def look() -> None:
            # Where the review's patience ends, these sessions end too.
            with suppress(psycopg.OperationalError):
                try:
                    while not done.wait(_POLL_S):
                        rows = watcher.execute(_BUSY, [pid]).fetchall()
                        seen.update((oid, LockMode.of(mode)) for oid, mode, _ in rows if oid is not None)
                        if any(waiting for *_, waiting in rows):
                            blocker.rollback()
                finally:
                    blocker.rollback()

        names = [sql.SQL(each.name) for each in tables if each.kind in "rp"]
        if names:
            with suppress(psycopg.errors.LockNotAvailable):
                blocker.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(sql.SQL(", ").join(names)))
        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            run()
        finally:
            done.set()
            thread.join()
    return seen
