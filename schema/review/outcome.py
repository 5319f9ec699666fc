"""What becomes of a revision beyond its upgrade: downgrade, upgrade again, and again after a failure in the middle."""

from collections.abc import Iterator

import psycopg
from psycopg import sql

from schema.drift.workshop import Workshop
from schema.pg.catalog import Kind, Snapshot, read_snapshot
from schema.pg.catalog.columns import Column
from schema.pg.catalog.indexes import Index
from schema.pg.connect import connect
from schema.review.facts import Statement, Trace
from schema.review.finding import Outcome
from schema.review.rows import fill
from schema.review.tracer import Bench, Tracer

MOST_FAILURES = 8
"""How many places a failure is injected at, per revision."""


def follow(bench: Bench, workshop: Workshop, trace: Trace) -> Outcome | None:
    """Take a copy of the database down and up again; None for a merge, which changes nothing.

    The copy is at the revision, and so is the database it is taken from, which stays as it is.
    """
    parent = _parent(bench, trace)
    if parent is None:
        return None
    with workshop.clone(bench.target) as target:
        copy = Bench(bench.project, target, bench.existing, bench.ignored, bench.patience_s)
        return _Course(copy, trace, parent).run()


def _parent(bench: Bench, trace: Trace) -> str | None:
    script = bench.project.script.get_revision(trace.revision.id)
    below = script.down_revision if script is not None else None
    if isinstance(below, tuple | list):
        return None
    return below or "base"


class _Course:
    def __init__(self, bench: Bench, trace: Trace, parent: str) -> None:
        self.bench, self.trace, self.parent = bench, trace, parent

    def run(self) -> Outcome:
        """Down, up, and what the two show."""
        kept = tuple(self._invalid_kept())
        with self._connected() as connection:
            fill(connection, ignored=self.bench.ignored)
            counts = _values(connection, self._snapshot(connection))
        sent, error = self._down()
        if error is not None:
            return Outcome(downgrade_error=error, refuses=sent == 0, invalid_kept=kept)
        below = self._look()
        leftovers = _differences(self._clean(self.trace.before), below)
        lost = tuple((name, count) for name, count in counts.items() if name not in _columns(below) and count)
        again = self._up()
        differences = () if again else _differences(self._clean(self.trace.after), self._look())
        rerun: tuple[tuple[int, str], ...] = ()
        if again is None and not leftovers and not differences:
            rerun = tuple(self._failures())
        return Outcome(
            second_error=again,
            differences=differences,
            leftovers=leftovers,
            lost=lost,
            rerun=rerun,
            invalid_kept=kept,
        )

    def _failures(self) -> Iterator[tuple[int, str]]:
        for statement in _breaks(self.trace)[:MOST_FAILURES]:
            _, error = self._down()
            if error is not None:
                return
            self._up(fail_before=statement.number)
            problem = self._up()
            differences = () if problem else _differences(self._clean(self.trace.after), self._look())
            if problem is not None or differences:
                yield statement.number, problem or f"it ends in another catalog: {'; '.join(differences[:3])}"
                return

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
        with self._connected() as connection:
            for name in names:
                connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [name])
            self._stamp(connection)
        if self._up() is not None:
            with self._connected() as connection:
                connection.execute("UPDATE pg_index SET indisvalid = true")
                self._stamp(connection, back=True)
            return
        after = self._look()
        yield from (each.identity for each in after.of(Index) if each.identity in names and not each.valid)
        with self._connected() as connection:
            connection.execute("UPDATE pg_index SET indisvalid = true")

    def _stamp(self, connection: psycopg.Connection, *, back: bool = False) -> None:
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
            connection.execute(statement)

    def _up(self, *, fail_before: int | None = None) -> str | None:
        return self.bench.run(self._blind(fail_before), self.trace.revision)

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
        with self._connected() as connection:
            return self._snapshot(connection)

    def _snapshot(self, connection: psycopg.Connection) -> Snapshot:
        return self._clean(read_snapshot(connection))

    def _clean(self, snapshot: Snapshot) -> Snapshot:
        return snapshot.without(self.bench.ignored)

    def _connected(self) -> psycopg.Connection:
        return connect(self.bench.target, application_name="schemactl review", autocommit=True)


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
