"""What the standbys say of themselves."""

from typing import LiteralString

from psycopg import Connection, sql

from schema.backfill.job import Row
from schema.backfill.throttle.signal import UnreadableError


def worst(connection: Connection[Row], measure: LiteralString) -> float:
    """Return the largest value of an SQL expression over pg_stat_replication; 0 when there is no standby.

    A base backup and a WAL archiver are in that view too: they replay nothing, so their lag is NULL.

    Raises:
        UnreadableError: the role may not see them.
    """
    row = connection.execute(
        sql.SQL("SELECT bool_or(state IS NULL), coalesce(max({}), 0) FROM pg_stat_replication").format(sql.SQL(measure))
    ).fetchone()
    assert row is not None
    if row[0]:
        raise UnreadableError("the role may not see standbys; grant it pg_monitor")
    return float(row[1])
