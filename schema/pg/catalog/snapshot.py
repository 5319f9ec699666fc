"""Reads everything that a database's catalogs say about its own objects, in one consistent look."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from schema.errors import DatabaseError, PrivilegeError
from schema.pg.catalog import (
    columns,
    constraints,
    database,
    extensions,
    foreign,
    functions,
    indexes,
    others,
    policies,
    privileges,
    replication,
    schemas,
    sequences,
    statistics,
    tables,
    triggers,
    types,
    views,
)
from schema.pg.catalog.base import CatalogObject, Key, Kind, Source

SOURCES: tuple[Source, ...] = (
    *database.SOURCES,
    *schemas.SOURCES,
    *extensions.SOURCES,
    *foreign.SOURCES,
    *types.SOURCES,
    *sequences.SOURCES,
    *functions.SOURCES,
    *tables.SOURCES,
    *columns.SOURCES,
    *constraints.SOURCES,
    *views.SOURCES,
    *indexes.SOURCES,
    *statistics.SOURCES,
    *triggers.SOURCES,
    *policies.SOURCES,
    *others.SOURCES,
    *privileges.SOURCES,
    *replication.SOURCES,
)

ATTEMPTS = 3
"""How often a snapshot is begun anew when the catalogs change while it is read."""

OLDEST, NEWEST = 150000, 190000
"""Server versions whose catalogs are known, the second excluded."""

# What the printed text of an expression depends on. Triggers and settings of a session must not leak in either.
_PINNED = """
    SET LOCAL search_path = '';
    SET LOCAL TimeZone = 'UTC';
    SET LOCAL DateStyle = 'ISO, YMD';
    SET LOCAL IntervalStyle = 'postgres';
    SET LOCAL bytea_output = 'hex';
    SET LOCAL extra_float_digits = 1;
    SET LOCAL quote_all_identifiers = off;
    SET LOCAL enable_seqscan = on;
    SET LOCAL jit = off;
    SET LOCAL max_parallel_workers_per_gather = 0;
"""

# xmin is a 32-bit number that wraps; the difference to the snapshot's xmax tells which is newer.
_NEWER = "((o.xmin::text::bigint - s.xmax) & 4294967295) < 2147483648 OR o.xmin::text = ANY (s.running)"
_CHANGED = f"""
    WITH s AS (SELECT %s::bigint AS xmax, %s::text[] AS running)
    SELECT EXISTS (SELECT FROM s, pg_class AS o JOIN pg_namespace AS n ON n.oid = o.relnamespace
            WHERE n.nspname !~ '^pg_' AND o.xmin::text::bigint > 2 AND ({_NEWER}))
        OR EXISTS (SELECT FROM s, pg_attribute AS o JOIN pg_class AS c ON c.oid = o.attrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname !~ '^pg_' AND o.xmin::text::bigint > 2 AND ({_NEWER}))
        OR EXISTS (SELECT FROM s, pg_constraint AS o JOIN pg_namespace AS n ON n.oid = o.connamespace
            WHERE n.nspname !~ '^pg_' AND o.xmin::text::bigint > 2 AND ({_NEWER}))
        OR EXISTS (SELECT FROM s, pg_type AS o JOIN pg_namespace AS n ON n.oid = o.typnamespace
            WHERE n.nspname !~ '^pg_' AND o.xmin::text::bigint > 2 AND ({_NEWER}))
        OR EXISTS (SELECT FROM s, pg_proc AS o WHERE o.xmin::text::bigint > 2 AND ({_NEWER}))"""

T = TypeVar("T", bound=CatalogObject)


class CatalogChangedError(DatabaseError):
    """The catalogs changed while they were read, again and again."""

    default_hint = "Run it again when no migration is under way."


class _TornError(Exception):
    """This look met an object that was changed or dropped since it began."""


@dataclass(frozen=True)
class Snapshot:
    """The catalogs of one database at one moment."""

    database: str
    server_version: int
    """Such as 180006."""
    objects: Mapping[Key, CatalogObject]

    @property
    def major(self) -> int:
        """Major version of the server."""
        return self.server_version // 10000

    def of(self, kind: type[T]) -> Iterator[T]:
        """The objects of one class."""
        return (found for found in self.objects.values() if isinstance(found, kind))

    @property
    def main_owner(self) -> str | None:
        """The role that owns most tables, views and functions; None when there are none."""
        owners = Counter(
            str(getattr(found, "owner"))  # noqa: B009 - the base class has none
            for found in self.objects.values()
            if found.kind in {Kind.TABLE, Kind.VIEW, Kind.FUNCTION, Kind.SEQUENCE}
        )
        return min(owners, key=lambda role: (-owners[role], role), default=None)

    def with_owner(self, old: str, new: str) -> "Snapshot":
        """The same objects, with those of the role `old` given to `new`."""
        changed = (
            replace(found, owner=new) if getattr(found, "owner", None) == old else found  # type: ignore[call-arg]
            for found in self.objects.values()
        )
        return replace(self, objects=MappingProxyType({found.key: found for found in changed}))

    def without(self, excluded: Collection[str]) -> "Snapshot":
        """The same without the tables named, and without whatever is part of them."""
        gone = {key for key in self.objects if key.kind in {Kind.TABLE, Kind.VIEW} and key.identity in excluded}
        if not gone:
            return self
        size = -1
        while size != len(gone):
            size = len(gone)
            gone |= {key for key, found in self.objects.items() if not gone.isdisjoint(found.containers)}
        return replace(
            self, objects=MappingProxyType({key: found for key, found in self.objects.items() if key not in gone})
        )


def read_snapshot(connection: psycopg.Connection[Any], *, exclude: Collection[str] = ()) -> Snapshot:
    """Read the catalogs of the connection's database: two round trips, whatever is in it.

    A connection outside a transaction reads in one of its own (REPEATABLE READ, READ ONLY), and once more from the
    start when the catalogs change meanwhile; inside a transaction it reads what that sees, and leaves its settings as
    they were. No lock is taken beyond ACCESS SHARE on catalogs; no privilege is needed but to connect.

    Args:
        connection: An open connection to PostgreSQL 15 to 18, a standby included.
        exclude: Tables, as `schema.table` quoted where needed, that are left out with everything of theirs.

    Raises:
        DatabaseError: the server is older or newer than that, or the catalogs keep changing.
        PrivilegeError: a catalog may not be read.
    """
    version = connection.info.server_version
    if not OLDEST <= version < NEWEST:
        raise DatabaseError(
            f"PostgreSQL {version // 10000} has catalogs that this version does not know",
            hint="PostgreSQL 15 to 18 are supported.",
        )
    own = connection.info.transaction_status == TransactionStatus.IDLE
    for attempt in range(ATTEMPTS):
        try:
            snapshot = _read_own(connection, version) if own else _read_within(connection, version)
        except _TornError as torn:
            if not own or attempt == ATTEMPTS - 1:
                raise CatalogChangedError(
                    f"the catalogs of {connection.info.dbname!r} changed while they were read ({torn})"
                ) from torn
        else:
            return snapshot.without(exclude) if exclude else snapshot
    raise AssertionError


def _read_own(connection: psycopg.Connection[Any], version: int) -> Snapshot:
    script = (
        f"BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; {_PINNED}"
        "SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint & 4294967295),"
        " ARRAY(SELECT (x::text::bigint & 4294967295)::text FROM pg_snapshot_xip(pg_current_snapshot()) AS x);"
    )
    autocommit = connection.autocommit
    if not autocommit:
        connection.autocommit = True
    try:
        rows = _run(connection, script, version, "COMMIT")
        ((xmax, running),) = rows[0]
        # The functions that print definitions look at the newest catalogs, not at the transaction's snapshot.
        changed = connection.execute(_CHANGED, (xmax, running)).fetchone()
        if changed is None or changed[0]:
            raise _TornError("a definition is newer than the snapshot")
    finally:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
        if not autocommit and not connection.closed:
            connection.autocommit = autocommit
    return _built(connection, version, rows[1:])


def _read_within(connection: psycopg.Connection[Any], version: int) -> Snapshot:
    # Rolling back to a savepoint undoes SET LOCAL, so the caller's search_path is what it was.
    rows = _run(
        connection,
        f"SAVEPOINT schemactl_snapshot; {_PINNED}",
        version,
        "ROLLBACK TO SAVEPOINT schemactl_snapshot; RELEASE SAVEPOINT schemactl_snapshot",
    )
    return _built(connection, version, rows)


def _run(connection: psycopg.Connection[Any], before: str, version: int, after: str) -> list[list[tuple[Any, ...]]]:
    """Results of all queries, sent as one message: without parameters the server takes many statements at once."""
    script = ";\n".join([before.rstrip().rstrip(";"), *(source.sql(version) for source in SOURCES), after])
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        try:
            cursor.execute(sql.SQL(script))
        except psycopg.errors.InsufficientPrivilege as error:
            raise PrivilegeError(
                f"a catalog of {connection.info.dbname!r} may not be read: {error.diag.message_primary}",
                hint="Grant the role SELECT on it: the catalogs are readable by everybody unless that was revoked.",
            ) from error
        except (psycopg.errors.InternalError_, psycopg.errors.UndefinedObject, psycopg.errors.UndefinedTable) as error:
            # "cache lookup failed": an object was dropped between its catalog row and its definition.
            raise _TornError(str(error.diag.message_primary)) from error
        return [result.fetchall() for result in cursor.results() if result.description is not None]


def _built(connection: psycopg.Connection[Any], version: int, results: list[list[tuple[Any, ...]]]) -> Snapshot:
    found = chain.from_iterable(map(source.type.of_row, rows) for source, rows in zip(SOURCES, results, strict=True))
    objects = {each.key: each for each in found}
    for key, each in objects.items():
        # Printed definitions are never NULL, unless the object was dropped before its turn came.
        if getattr(each, "definition", "") is None and not isinstance(each, indexes.Index | triggers.Trigger):
            raise _TornError(f"{key.kind} {key.identity} was dropped")
    return Snapshot(connection.info.dbname, version, MappingProxyType(objects))
