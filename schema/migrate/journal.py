"""Which statements of a revision have committed while it is between its transactions.

A revision with an autocommit block commits before it is recorded in the version table. The journal is a table beside
that one, there only meanwhile: it is written in the transaction of the statement it tells of, or, for statements that
PostgreSQL runs outside of transactions only, before and after. The transaction that records the revision drops it.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext


@dataclass(frozen=True)
class Entry:
    """One statement that was begun."""

    digest: str
    """Of the statement and its parameters."""
    statement: str
    """For people: on one line, without parameters, and cut."""
    kind: str
    """`once`; `again` for what only reads or sets, and runs again; `rows` for what wrote and returned rows."""
    row_count: int = -1
    committed: bool = True
    """False while it is under way outside of a transaction."""

    def __str__(self) -> str:
        return self.statement


@dataclass(frozen=True)
class Unfinished:
    """A revision that an earlier run left between its transactions."""

    revision: str
    is_upgrade: bool
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        done = [entry for entry in self.entries if entry.committed and entry.kind != "again"]
        open_ = [entry for entry in self.entries if not entry.committed]
        parts = [f"these statements of it stand committed: {numbered(done)}"] if done else []
        parts += [f"this one was under way and may have committed: {entry}" for entry in open_]
        return "; ".join(parts)


def numbered(entries: Iterable[Entry]) -> str:
    """A list of statements in one line."""
    return " ".join(f"({number}) {entry}" for number, entry in enumerate(entries, start=1))


def digest(statement: str, parameters: object) -> str:
    """What tells one statement from another; its parameters cannot be read from it."""
    return hashlib.sha256(repr((statement, parameters)).encode()).hexdigest()


def shown(statement: str) -> str:
    """A statement on one line, cut; in ASCII, as a database may have an encoding that lacks an ellipsis."""
    line = " ".join(re.sub(r"--[^\n]*", " ", statement).split())
    return line if len(line) <= 100 else f"{line[:97]}..."


# In a FROM: the transaction, which is this statement's alone, does not wait for the disk.
_HURRIED = "(SELECT set_config('synchronous_commit', 'off', true)) AS hurried"


class Journal:
    """The table of one version table. Its owner says in which transaction each call runs."""

    def __init__(self, migration: MigrationContext) -> None:
        self._migration = migration
        quote = migration.dialect.identifier_preparer.quote_identifier
        schema = migration.version_table_schema or self._schema_of_version_table(quote(migration.version_table))

        def qualified(name: str) -> str:
            return ".".join(quote(part) for part in (schema, name) if part)

        self.version_table = qualified(migration.version_table)
        # A name may have 63 bytes.
        self.name = qualified(f"{migration.version_table[:50]}_unfinished")

    def read(self) -> Unfinished | None:
        """What an earlier run left; None is the rule."""
        if self._value("SELECT to_regclass(:name) IS NULL", name=self.name):
            return None
        rows = self._execute(
            "SELECT revision, is_upgrade, digest, statement, kind, row_count, committed_at IS NOT NULL AS committed "
            f"FROM {self.name} ORDER BY place"
        ).all()
        if not rows:
            return None
        entries = (Entry(row.digest, row.statement, row.kind, row.row_count, row.committed) for row in rows)
        return Unfinished(rows[0].revision, rows[0].is_upgrade, tuple(entries))

    def make(self, *, ahead: bool = False) -> None:
        """Make the table, if it is not there; `ahead` as for `write`.

        Its rows are short enough for PostgreSQL to make no second table for what is long, which costs as much again.
        """
        statement = (
            f"CREATE TABLE IF NOT EXISTS {self.name} (place int PRIMARY KEY, revision varchar(255) NOT NULL, "
            "is_upgrade bool NOT NULL, digest varchar(64) NOT NULL, statement varchar(100) NOT NULL, "
            "kind varchar(5) NOT NULL, row_count int NOT NULL, committed_at timestamptz)"
        )
        self._execute(f"DO $make$ BEGIN PERFORM * FROM {_HURRIED}; {statement}; END $make$" if ahead else statement)

    def write(
        self, revision: str, is_upgrade: bool, place: int, entries: Sequence[Entry], *, ahead: bool = False
    ) -> None:
        """Add statements, the first of which is number `place` of the revision.

        `ahead` says that this is the whole transaction, and the statement comes after it: what that one commits takes
        the note to the disk, which need not be waited for here.
        """
        rows = ", ".join(
            f"(:place_{n}, :revision, CAST(:is_upgrade AS bool), :digest_{n}, :statement_{n}, :kind_{n}, "
            f"CAST(:row_count_{n} AS int), CASE WHEN :committed_{n} THEN now() END)"
            for n in range(len(entries))
        )
        values = {
            f"{name}_{n}": value
            for n, entry in enumerate(entries)
            for name, value in {"place": place + n, **vars(entry)}.items()
        }
        self._execute(
            f"INSERT INTO {self.name} SELECT noted.* FROM (VALUES {rows}) AS noted{f', {_HURRIED}' if ahead else ''} "
            "ON CONFLICT (place) DO UPDATE SET digest = excluded.digest, statement = excluded.statement, "
            "kind = excluded.kind, row_count = excluded.row_count, committed_at = excluded.committed_at",
            revision=revision,
            is_upgrade=is_upgrade,
            **values,
        )

    def done(self, place: int, *, hurried: bool = False) -> None:
        """The statement that was under way has committed.

        `hurried` is for one whose end can be told without this note: a server that crashes within a second may lose it.
        """
        source = f" FROM {_HURRIED}" if hurried else ""
        self._execute(f"UPDATE {self.name} SET committed_at = now(){source} WHERE place = :place", place=place)

    def drop(self) -> None:
        """Remove the table."""
        self._execute(f"DROP TABLE IF EXISTS {self.name}")

    def _schema_of_version_table(self, quoted: str) -> str | None:
        found = self._execute(
            "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE pg_class.oid = to_regclass(:name)",
            name=quoted,
        ).scalar()
        return None if found is None else str(found)

    def _value(self, query: str, /, **parameters: Any) -> Any:
        return self._execute(query, **parameters).scalar_one()

    def _execute(self, query: str, /, **parameters: Any) -> sa.CursorResult[Any]:
        assert self._migration.connection is not None
        return self._migration.connection.execute(sa.text(query), parameters)
