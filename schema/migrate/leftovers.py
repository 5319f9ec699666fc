"""Index commands with CONCURRENTLY that were cut short: whether one came to its end, and what else it left behind."""

import re
from typing import Final

import sqlalchemy as sa

_PART: Final = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_NAME: Final = rf"({_PART}(?:\.{_PART})?)"
_CREATE = re.compile(
    rf"\s*CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?({_PART})\s+ON\s+(?:ONLY\s+)?{_NAME}",
    re.IGNORECASE,
)
_DROP = re.compile(
    rf"\s*DROP\s+INDEX\s+CONCURRENTLY\s+(?:IF\s+EXISTS\s+)?{_NAME}\s*(?:CASCADE|RESTRICT)?\s*;?\s*$", re.I
)
_REINDEX = re.compile(
    rf"\s*REINDEX\s+(?:\([^)]*\)\s*)?(INDEX|TABLE|SCHEMA)\s+(?:CONCURRENTLY\s+)?{_NAME}\s*;?\s*$", re.IGNORECASE
)
_IF_EXISTS = re.compile(r"\bIF\s+EXISTS\b", re.IGNORECASE)
_CONCURRENTLY = re.compile(r"\bCONCURRENTLY\b", re.IGNORECASE)

_INDEX = """
SELECT indexrelid::regclass::text AS name, indisvalid
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass(:table) AND relname = (parse_ident(:index))[1]
"""

# Of a table: its own, and those of its partitions and of what is kept beside it.
_REINDEX_LEFT = r"""
WITH RECURSIVE named AS (
    SELECT coalesce((SELECT indrelid FROM pg_index WHERE indexrelid = to_regclass(:name)), to_regclass(:name)) AS oid
    WHERE :kind <> 'SCHEMA'
    UNION
    SELECT pg_class.oid FROM pg_class WHERE :kind = 'SCHEMA' AND relnamespace = to_regnamespace(:name)
), tables AS (
    SELECT oid FROM named
    UNION
    SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = oid
)
SELECT indexrelid::regclass::text
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE NOT indisvalid AND relname ~ '_cc(new|old)\d*$' AND indrelid IN (
    SELECT oid FROM tables
    UNION ALL
    SELECT reltoastrelid FROM pg_class JOIN tables USING (oid)
)
ORDER BY 1
"""


def is_index_command(statement: str) -> bool:
    """Whether a statement builds, rebuilds or drops indexes while others write; one that was cut short can be told."""
    found = _CREATE.match(statement) or _DROP.match(statement) or _REINDEX.match(statement)
    return found is not None and _CONCURRENTLY.search(statement) is not None


def waits_harmlessly(statement: str) -> bool:
    """Whether a statement keeps nobody from reading or writing, however long it waits for its locks.

    REINDEX of a partitioned table or index does: it locks the partitions against writers.
    """
    return (_CREATE.match(statement) or _DROP.match(statement)) is not None


def is_harmless_again(statement: str) -> bool:
    """Whether a statement may run twice with nothing between."""
    return _DROP.match(statement) is not None and _IF_EXISTS.search(statement) is not None


def came_to_its_end(connection: sa.Connection, statement: str) -> bool:
    """Whether a command that was begun, and whose end nobody noted, has done its work after all.

    Otherwise INVALID indexes that it left are dropped, so that it can be run again. Runs in autocommit mode. Each
    DROP INDEX CONCURRENTLY waits for whoever builds on that table just now, up to lock_timeout.
    """
    if found := _CREATE.match(statement):
        row = connection.execute(sa.text(_INDEX), {"index": found[1], "table": found[2]}).one_or_none()
        if row is not None and not row.indisvalid:
            _drop(connection, row.name)
        return row is not None and bool(row.indisvalid)
    if found := _DROP.match(statement):
        return connection.scalar(sa.text("SELECT to_regclass(:name) IS NULL"), {"name": found[1]}) is True
    if found := _REINDEX.match(statement):
        left = connection.scalars(sa.text(_REINDEX_LEFT), {"kind": found[1].upper(), "name": found[2]}).all()
        for name in left:
            _drop(connection, name)
    return False


def _drop(connection: sa.Connection, name: str) -> None:
    # A name from the catalog, quoted there where it has to be.
    connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".replace("%", "%%"))
