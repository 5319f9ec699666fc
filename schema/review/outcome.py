"""What becomes of a revision beyond its upgrade: downgrade, upgrade again, and again after a failure in the middle."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from schema.drift.workshop import Workshop
from schema.pg.catalog import Kind, Snapshot, read_snapshot
from schema.pg.catalog.columns import Column
from schema.pg.catalog.indexes import Index
from schema.review.bench import Bench, Desk
from schema.review.facts import Statement, Trace
from schema.review.finding import Outcome
from schema.review.tracer import Tracer

MOST_FAILURES = 8
"""How many places a failure is injected at, per revision."""

Prepare = Callable[[psycopg.Connection[Any]], object]
"""Gives every table of a database rows that has none."""


class Understudy:
    """A second database that goes through the revisions one behind the first, and is copied anew when it falls out.

    Copying a database takes longer than running most revisions.
    """

    def __init__(self, workshop: Workshop, source: Desk) -> None:
        self._workshop, self._source = workshop, source
        self._stack = ExitStack()
        self._desk: Desk | None = None

    def make(self) -> None:
        """Copy the first database, unless there is a copy that kept up with it; nobody may be connected to that."""
        if self._desk is None:
            self._source.close()
            self._desk = Desk(self._stack.enter_context(self._workshop.clone(self._source.target)))
            self._stack.callback(self._desk.close)

    @property
    def desk(self) -> Desk:
        """The database."""
        self.make()
        assert self._desk is not None
        return self._desk

    def forget(self) -> None:
        """Drop it: it is no longer what the first one is or was."""
        self._desk = None
        self._stack.close()


def follow(bench: Bench, understudy: Understudy, trace: Trace, prepare: Prepare) -> Outcome | None:
    """Take the understudy, which is at the revision's parents, through the revision and return what happened.

    None for a merge, which has nothing to be reversed. The first database is at the revision and stays as it is.
    """
    course = _Course(bench, understudy, trace, prepare)
    outcome = course.run()
    if not course.back:
        understudy.forget()
    return outcome


class _Course:
    def __init__(self, bench: Bench, understudy: Understudy, trace: Trace, prepare: Prepare) -> None:
        self._bench, self._understudy, self.trace, self.prepare = bench, understudy, trace, prepare
        self.back = False
        """The understudy has ended as the first database is."""
        below = trace.parents
        self.merges = len(below) > 1
        self.parent = below[0] if below else "base"

    @property
    def bench(self) -> Bench:
        return replace(self._bench, desk=self._understudy.desk)

    @property
    def connection(self) -> psycopg.Connection:
        return self._understudy.desk.connection

    def run(self) -> Outcome | None:
        """Up, with a failure at each place that leaves something committed; down, up, and what the two show."""
        if self.merges:
            self.back = self._up() is None
            return None
        self._prepare()
        failed, rerun = self._interrupted()
        if failed or rerun:
            self._understudy.forget()
        kept = tuple(self._invalid_kept())
        self._prepare()
        counts = _values(self.connection, self._clean(self.trace.after))
        sent, error = self._down()
        if error is not None:
            return Outcome(downgrade_error=error, refuses=sent == 0, rerun=rerun, invalid_kept=kept)
        below = self._look()
        leftovers = _differences(self._clean(self.trace.before), below)
        lost = tuple((name, count) for name, count in counts.items() if name not in _columns(below) and count)
        differences: tuple[str, ...] = ()
        if failed and not leftovers:
            # Something outside of the database stood in its way, such as a role that the revision makes.
            again, rerun = self._interrupted()
        else:
            again = self._up()
            differences = () if again else _differences(self._clean(self.trace.after), self._look())
        self.back = not (again or differences or leftovers or rerun)
        return Outcome(
            second_error=again,
            differences=differences,
            leftovers=leftovers,
            lost=lost,
            rerun=rerun,
            invalid_kept=kept,
        )

    def _interrupted(self) -> tuple[str | None, tuple[tuple[int, str], ...]]:
        """Run the revision with one failure after the other, each time from what the last one left, then to its end.

        Return why it could not be run even before the first failure, and the failures that a run stumbles over.
        """
        breaks = _breaks(self.trace)[:MOST_FAILURES]
        last: int | None = None
        for number in [*(each.number for each in breaks), None]:
            problem = self._up(fail_before=number)
            if problem is not None:
                return (problem, ()) if last is None else (None, ((last, problem),))
            if number is None:
                break
            last = number
        differences = _differences(self._clean(self.trace.after), self._look()) if breaks else ()
        if differences:
            return None, ((breaks[0].number, f"it ends in another catalog: {'; '.join(differences[:3])}"),)
        return None, ()

    def _prepare(self) -> None:
        self.prepare(self.connection)

    def _invalid_kept(self) -> Iterator[str]:
        """Make each index that the revision builds by itself INVALID, as a broken attempt does, and run it again."""
        changing = [each for each in self.trace.statements if each.changes]
        names = [
            change.key.identity
            for each in changing
            for change in each.changes
            if isinstance(change.after, Index) and change.before is None
        ]
        if not names or not all(each.alone for each in changing) or self.trace.error:
            return
        for name in names:
            self.connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [name])
        self._stamp()
        if self._up() is not None:
            self.connection.execute("UPDATE pg_index SET indisvalid = true")
            self._stamp(back=True)
            return
        after = self._look()
        yield from (each.identity for each in after.of(Index) if each.identity in names and not each.valid)
        self.connection.execute("UPDATE pg_index SET indisvalid = true")

    def _stamp(self, *, back: bool = False) -> None:
        old, new = (self.parent, self.trace.revision.id) if back else (self.trace.revision.id, self.parent)
        for table in self.bench.ignored:
            if self.parent == "base" and not back:
                statement = sql.SQL("DELETE FROM {} WHERE version_num = {}").format(sql.SQL(table), old)
            elif self.parent == "base":
                statement = sql.SQL("INSERT INTO {} VALUES ({})").format(sql.SQL(table), new)
            else:
                statement = sql.SQL("UPDATE {} SET version_num = {} WHERE version_num = {}").format(
                    sql.SQL(table),
                    new,
                    old,
                )
            self.connection.execute(statement)

    def _up(self, *, fail_before: int | None = None) -> str | None:
        """Why it failed; None when it did not, or when it failed as it should."""
        tracer = self._blind(fail_before)
        error = self.bench.run(tracer, self.trace.revision)
        return None if tracer.injected else error

    def _blind(self, fail_before: int | None = None) -> Tracer:
        """A tracer that only counts: looking at the catalogs would take most of the time."""
        path = self.trace.revision.path
        return Tracer(self.bench.target, path, frozenset(), self.bench.ignored, fail_before=fail_before, observe=False)

    def _down(self) -> tuple[int, str | None]:
        tracer = self._blind()
        # By its own branch: the bare parent would take other arms down with it.
        down_to = f"{self.trace.revision.id}@{self.parent}"
        error = self.bench.run(tracer, self.trace.revision, down_to=down_to)
        return tracer.sent, error

    def _look(self) -> Snapshot:
        return self._clean(read_snapshot(self.connection))

    def _clean(self, snapshot: Snapshot) -> Snapshot:
        return snapshot.without(self.bench.ignored)


def _breaks(trace: Trace) -> list[Statement]:
    """Statements whose failure leaves something of the revision committed: the first ones of later transactions."""
    found = []
    committed = False
    for one, other in zip(trace.statements, trace.statements[1:], strict=False):
        if one.transaction != other.transaction:
            committed |= any(each.changes for each in trace.statements if each.transaction == one.transaction)
            if committed:
                found.append(other)
    return found


def _columns(snapshot: Snapshot) -> set[str]:
    return {each.identity for each in snapshot.of(Column) if not each.of_view}


def _values(connection: psycopg.Connection, snapshot: Snapshot) -> dict[str, int]:
    """How many values, not NULL, each column of a plain table holds."""
    by_table: dict[str, list[str]] = {}
    for column in snapshot.of(Column):
        if not column.of_view:
            by_table.setdefault(column.table, []).append(column.name)
    found = {}
    for table, names in by_table.items():
        counted = ", ".join(f"count({name})" for name in names)
        row = connection.execute(f"SELECT {counted} FROM {table}".encode()).fetchone()  # noqa: S608 - quoted by the server
        assert row is not None
        found.update({f"{table}.{name}": count for name, count in zip(names, row, strict=True)})
    return found


def _differences(one: Snapshot, other: Snapshot) -> tuple[str, ...]:
    """What differs, but for the place of a column, which a table that lost one in between cannot give back."""
    texts = []
    for key in sorted(one.objects.keys() | other.objects.keys()):
        before, after = one.objects.get(key), other.objects.get(key)
        if before is None or after is None:
            if key.kind is not Kind.DATABASE:
                texts.append(f"{key.kind} {key.identity} is {'extra' if before is None else 'missing'}")
        elif before.attributes() != after.attributes():
            names = [name for name, value in before.attributes().items() if value != after.attributes()[name]]
            texts.append(f"{key.kind} {key.identity} differs in {', '.join(names)}")
    return tuple(texts)
