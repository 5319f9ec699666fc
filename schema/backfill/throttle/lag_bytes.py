"""How far the furthest standby is behind, in bytes of WAL not yet replayed."""

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle import standbys
from schema.backfill.throttle.signal import Signal, Unit


class LagBytes(Signal):
    """Replication lag in bytes. No standby is healthy."""

    name = "replication_lag_bytes"
    limit = 64 * 1024**2
    unit = Unit.BYTES

    def read(self, connection: Connection[Row], job: Job) -> float:  # noqa: ARG002
        """The largest lag."""
        return standbys.worst(connection, "pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)")
