"""A scratch database, and runs of revisions in it: bounded in time, with standard input closed."""

import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import psycopg

from schema.errors import SchemaError
from schema.migrate.project import Project, Revision
from schema.migrate.runner import Options, downgrade, upgrade
from schema.pg.catalog import Snapshot, read_snapshot
from schema.pg.connect import Connection, connect, connection_options
from schema.pg.target import Target
from schema.review.facts import Relation, Statement, Trace
from schema.review.observe import relations
from schema.review.tracer import TELLING, Tracer

PLAIN = Options(yes=True, guarded=False)
"""A run that sends what plain Alembic sends."""

PATIENCE_S = 300.0
"""How long a revision may run on the scratch server."""

_RING_AGAIN_S = 5.0

_DESK = "schemactl review"
"""What the sessions are called that no run of a revision opens."""

_INTEGRITY = "23"
"""Class of the SQLSTATEs of rows that break a constraint."""


class Desk:
    """A connection to a scratch database that is kept, since a fresh one reads the catalogs half as fast."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The connection, in autocommit; a new one where the last was closed, or ended by the server."""
        try:
            if self._connection is not None and not self._connection.closed:
                self._connection.execute("SELECT")
                return self._connection
        except psycopg.OperationalError:
            self.close()
        self._connection = connect(self.target, application_name=_DESK, autocommit=True)
        return self._connection

    def close(self) -> None:
        """Leave the database to others."""
        if self._connection is not None:
            self._connection.close()


@dataclass(frozen=True)
class _Start:
    """A database before a revision."""

    snapshot: Snapshot
    rows: dict[int, int]
    values: dict[str, int]


@dataclass(frozen=True)
class Bench:
    """A scratch database at a revision's parents, and what a trace of it needs to know."""

    project: Project
    desk: Desk
    existing: frozenset[int] | None
    """None: every relation that is there."""
    ignored: frozenset[str]
    patience_s: float = PATIENCE_S

    @property
    def target(self) -> Target:
        """The database."""
        return self.desk.target

    def tracer(self, revision: Revision, before: Snapshot | None = None) -> "tuple[Tracer, _Start]":
        """A tracer of one revision in this database as it stands."""
        connection = self.desk.connection
        known = relations(connection)
        snapshot = before or read_snapshot(connection)
        rows, values = _counts(connection, known)
        existing = frozenset(known) if self.existing is None else self.existing
        return Tracer(self.target, revision.path, existing, self.ignored, known=known, last=snapshot), _Start(
            snapshot, rows, values
        )

    def trace(self, revision: Revision, before: Snapshot | None = None) -> Trace:
        """Upgrade the database to a revision and return everything that it was seen to do. Never raises for it.

        `before` are its catalogs, where they are known.
        """
        script = self.project.script.get_revision(revision.id)
        tracer, start = self.tracer(revision, before)
        rows, values = start.rows, start.values
        started = time.monotonic()
        error = self.run(tracer, revision)
        refused, duplicates = None, None
        last = tracer.statements[-1] if tracer.statements else None
        broken = error is not None and last is not None and last.sqlstate and last.sqlstate[:2] == _INTEGRITY
        if broken and read_snapshot(self.desk.connection).objects == start.snapshot.objects:
            duplicates = _duplicates(self.desk.connection, last)
            _empty(self.desk.connection, tracer.known, self.ignored)
            refused = last
            tracer, start = self.tracer(revision)
            error = self.run(tracer, revision)
        seconds = time.monotonic() - started
        after = read_snapshot(self.desk.connection)
        return Trace(
            revision,
            tuple(tracer.statements),
            start.snapshot,
            after,
            tracer.existing,
            tracer.known,
            rows,
            seconds,
            error,
            tuple(script._all_down_revisions) if script is not None else (),  # noqa: SLF001 - labels resolved
            refused,
            duplicates,
            values,
        )

    def run(self, tracer: Tracer, revision: Revision, *, down_to: str | None = None) -> str | None:
        """Run a revision's upgrade, or its downgrade; return why it failed, or None."""
        # An environment that makes its connections by itself, as this project's does, takes the options from the URL.
        options = connection_options(self.target, TELLING)
        target = Target(self.target.url.update_query_dict({"options": options}), self.target.source)
        try:
            with _bounded(self), tracer.observing(), redirect_stdout(sys.stderr):
                if down_to is None:
                    upgrade(self.project, target, revision.id, options=PLAIN)
                else:
                    downgrade(self.project, target, down_to, options=PLAIN)
        except SchemaError as error:
            if isinstance(error.__cause__, EOFError):
                return "it reads standard input, which is closed"
            return f"{error.message}. {error.hint}".rstrip()
        except SystemExit as error:
            return f"it calls sys.exit({error.code!r})"
        except TimeoutError:
            return f"it did not end within {self.patience_s:g} s"
        return None


@contextmanager
def _bounded(bench: Bench) -> Iterator[None]:
    """End what hangs: the backends by a second session, Python code by an alarm; and close standard input."""

    def end() -> None:
        with connect(bench.target, application_name="schemactl review watch", autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name <> %s AND pid <> pg_backend_pid()",
                [_DESK],
            )

    def ring(*_: object) -> None:
        raise TimeoutError

    timer = threading.Timer(bench.patience_s, end)
    timer.daemon = True
    main = threading.current_thread() is threading.main_thread()
    earlier = signal.signal(signal.SIGALRM, ring) if main else None
    if main:
        # More than once: what is raised within a destructor or a weak reference's callback is dropped.
        signal.setitimer(signal.ITIMER_REAL, bench.patience_s + 1, _RING_AGAIN_S)
    timer.start()
    stdin = sys.stdin
    try:
        with Path(os.devnull).open(encoding="utf-8") as nothing:
            sys.stdin = nothing
            yield
    finally:
        sys.stdin = stdin
        timer.cancel()
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, earlier)


def _empty(connection: psycopg.Connection, known: Mapping[int, Relation], ignored: Collection[str]) -> None:
    names = [each.name for each in known.values() if each.kind in "rp" and each.name not in ignored]
    if names:
        connection.execute(f"TRUNCATE {', '.join(names)} CASCADE".encode())


def _counts(connection: psycopg.Connection, known: Mapping[int, Relation]) -> tuple[dict[int, int], dict[str, int]]:
    """Rows of each table, and values of each of its columns."""
    names = {each.oid: [line.partition(" ")[2] for line in each.columns.splitlines()] for each in known.values()}
    tables = [each for each in known.values() if each.kind in "rm"]
    if not tables:
        return {}, {}
    looks = []
    for each in tables:
        counted = ", ".join(f"count({name})" for name in names[each.oid])
        looks.append(f"SELECT {each.oid}::bigint, count(*), ARRAY[{counted}]::bigint[] FROM {each.name}")  # noqa: S608
    rows, values = dict[int, int](), dict[str, int]()
    for oid, count, counts in connection.execute(" UNION ALL ".join(looks).encode()):
        rows[oid] = count
        values.update({f"{known[oid].name}.{name}": each for name, each in zip(names[oid], counts, strict=True)})
    return rows, values


def _duplicates(connection: psycopg.Connection, refused: Statement | None) -> int | None:
    """How many keys occur more than once, of those that a unique index was refused for; None for anything else."""
    key = refused.key if refused is not None else None
    if key is None:
        return None
    table, columns = key
    query = f"SELECT count(*) FROM (SELECT FROM {table} GROUP BY {columns} HAVING count(*) > 1) AS twice"  # noqa: S608
    try:
        row = connection.execute(query.encode()).fetchone()
    except psycopg.Error:
        # The rows came with the revision itself, or so did the column.
        return None
    return row[0] if row is not None else None
