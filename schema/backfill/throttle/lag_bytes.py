"""How far the furthest standby is behind, in bytes of WAL not yet replayed."""

from typing import Final

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.signal import Signal, Unit, UnreadableError

# A base backup and a WAL archiver are no standbys: they replay nothing.
STANDBYS: Final = "FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'"


class LagBytes(Signal):
    """Replication lag in bytes. No standby is healthy."""

    name = "replication_lag_bytes"
    limit = 64 * 1024**2
    unit = Unit.BYTES

    def read(self, connection: Connection[Row], job: Job) -> float:  # noqa: ARG002
        """The largest lag."""
        row = connection.execute(
            "SELECT count(*) FILTER (WHERE state IS NULL),"
            f" coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)), 0) {STANDBYS}"
        ).fetchone()
        assert row is not None
        if row[0]:
            raise UnreadableError("the role may not see standbys; grant it pg_monitor")
        return float(row[1])
