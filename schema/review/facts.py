"""What a trace observes: statements, the locks they take, what they rewrite, scan, build and change."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

from schema.migrate.project import Revision
from schema.pg.catalog import CatalogObject, Key, Snapshot


class LockMode(IntEnum):
    """Table lock modes of PostgreSQL, from the weakest to the strongest."""

    ACCESS_SHARE = 1
    ROW_SHARE = 2
    ROW_EXCLUSIVE = 3
    SHARE_UPDATE_EXCLUSIVE = 4
    SHARE = 5
    SHARE_ROW_EXCLUSIVE = 6
    EXCLUSIVE = 7
    ACCESS_EXCLUSIVE = 8

    def __str__(self) -> str:
        return self.name.replace("_", " ")

    @property
    def dangerous(self) -> bool:
        """It conflicts with something that applications do: SELECT, INSERT, UPDATE, DELETE, SELECT FOR UPDATE."""
        return self >= LockMode.SHARE

    @property
    def blocks(self) -> str:
        """What waits while it is held."""
        if self is LockMode.ACCESS_EXCLUSIVE:
            return "reads and writes"
        if self is LockMode.EXCLUSIVE:
            return "writes and SELECT FOR UPDATE"
        return "writes" if self.dangerous else "other schema changes" if self >= 4 else "nothing but stronger locks"

    @classmethod
    def of(cls, name: str) -> "LockMode":
        """The mode that pg_locks calls `AccessShareLock` and so on."""
        words = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name.removesuffix("Lock"))
        return cls[words.removeprefix("_")]


@dataclass(frozen=True)
class Relation:
    """A row of pg_class."""

    oid: int
    name: str
    """Schema and name, quoted."""
    kind: str
    """`r` table, `p` partitioned table, `i` index, `I` partitioned index, `m` materialised view, `v`, `S`, `f`."""
    filenode: int
    table: int | None
    """Of an index: the oid of its table."""
    valid: bool
    tuples: float
    """reltuples: -1 after TRUNCATE, or when nobody has counted."""
    columns: str
    """Number and name of each living column of a table, one a line."""

    @property
    def is_table(self) -> bool:
        """A table, plain or partitioned, or a materialised view: something that holds rows for applications."""
        return self.kind in "rpm"

    @property
    def is_index(self) -> bool:
        """An index, plain or partitioned."""
        return self.kind in "iI"


@dataclass(frozen=True)
class Lock:
    """A lock that a statement took on a relation that existed before the revision."""

    relation: Relation
    mode: LockMode


@dataclass(frozen=True)
class Written:
    """Rows of a table that a statement wrote."""

    inserted: int
    updated: int
    deleted: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class Changed:
    """A catalog object before and after; None on the side that lacks it."""

    key: Key
    before: CatalogObject | None
    after: CatalogObject | None


@dataclass(frozen=True)
class Statement:
    """One statement of a revision, and everything it was seen to do."""

    number: int
    """From 1, within the revision."""
    text: str
    path: Path
    line: int
    transaction: int
    """Number of its transaction within the revision, from 1."""
    alone: bool
    """It ran outside of a transaction block, committed by itself."""
    seconds: float
    rows: int | None
    lock_timeout_ms: int
    statement_timeout_ms: int
    held: tuple[Lock, ...] = ()
    """What the transaction held when it began."""
    locks: tuple[Lock, ...] = ()
    """What it took on top of that."""
    relations: Mapping[int, Relation] = field(default_factory=dict, repr=False)
    """Relations as they were before it, by oid."""
    created: tuple[Relation, ...] = ()
    dropped: tuple[Relation, ...] = ()
    renamed: tuple[tuple[Relation, Relation], ...] = ()
    columns: Mapping[int, str] = field(default_factory=dict, repr=False)
    """Columns after it, as in `Relation.columns`, of tables whose columns it changed, by oid."""
    rewritten: tuple[Relation, ...] = ()
    """Tables and indexes whose file was replaced, though they existed before the revision."""
    scanned: Mapping[int, int] = field(default_factory=dict)
    """Tuples read by sequential scans, by oid of tables that existed before."""
    written: Mapping[int, Written] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    changes: tuple[Changed, ...] = ()
    sqlstate: str | None = None
    """Of the error that it ended with."""
    error: str | None = None
    key: tuple[str, str] | None = None
    """Table, and columns or expressions, whose values the error says are not unique."""

    @property
    def renamed_columns(self) -> dict[int, list[tuple[str, str]]]:
        """Old and new name of columns that kept their number, by oid of the table."""
        found: dict[int, list[tuple[str, str]]] = {}
        for oid, after in self.columns.items():
            names = dict(line.split(" ", 1) for line in after.splitlines())
            for number, old in (line.split(" ", 1) for line in self.relations[oid].columns.splitlines()):
                if names.get(number, old) != old:
                    found.setdefault(oid, []).append((old, names[number]))
        return found

    def notes(self, beginning: str) -> list[str]:
        """What the server said in notices that begin so, without that beginning."""
        return [text[len(beginning) :] for text in self.notices if text.startswith(beginning)]

    def noted(self, beginning: str, relation: Relation) -> bool:
        """Whether a notice that begins so is about this relation; notices name relations without their schema."""
        name = relation.name.partition(".")[2].strip('"')
        return any(text.startswith(f'"{name}"') for text in self.notes(beginning))


@dataclass(frozen=True)
class Trace:
    """One revision, run."""

    revision: Revision
    statements: tuple[Statement, ...]
    before: Snapshot
    after: Snapshot
    existing: frozenset[int]
    """Oids of the relations that existed before the set of revisions under review."""
    relations: Mapping[int, Relation] = field(repr=False)
    """Relations before the revision, by oid."""
    rows: Mapping[int, int] = field(repr=False)
    """Rows of each table on the scratch server before the revision."""
    seconds: float
    error: str | None = None
    """Why it could not be run to its end."""
    parents: tuple[str, ...] = ()
    """Ids of the revisions that it stands on."""
    refused: Statement | None = None
    """The statement that failed for the rows of the scratch database, before it was run once more without rows."""
    duplicates: int | None = None
    """How many keys occur more than once, where it failed for that."""
    values: Mapping[str, int] = field(default_factory=dict, repr=False)
    """How many values, not NULL, each column of a table had on the scratch server before the revision."""

    def slim(self, *, first: bool) -> "Trace":
        """The same without what rules alone look at, so that a long history does not fill the memory.

        The catalogs go, but those before the `first` of a set, and the relations that no statement has to do with.
        """
        none = replace(self.after, objects={})
        kept = {oid: each for oid, each in self.relations.items() if oid in self._touched}
        statements = tuple(
            replace(each, relations={oid: each.relations[oid] for oid in each.columns}) for each in self.statements
        )
        before = self.before if first else none
        rows = {oid: count for oid, count in self.rows.items() if oid in kept}
        return replace(self, statements=statements, before=before, after=none, relations=kept, rows=rows, values={})

    @property
    def _touched(self) -> set[int]:
        found = set[int]()
        for each in self.statements:
            found.update(each.scanned, each.written, each.columns)
            for lock in (*each.locks, *each.held):
                found |= {lock.relation.oid, lock.relation.table or lock.relation.oid}
            found.update(relation.oid for relation in each.rewritten)
        return found

    def held_until(self, statement: Statement) -> Statement:
        """The last statement of the same transaction: locks are held until it has committed."""
        return [each for each in self.statements if each.transaction == statement.transaction][-1]
