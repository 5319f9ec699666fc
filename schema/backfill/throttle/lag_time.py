"""How far the furthest standby is behind, in time."""

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.lag_bytes import STANDBYS
from schema.backfill.throttle.signal import Signal, Unit, UnreadableError


class LagTime(Signal):
    """Replication lag in time. A standby that has replayed everything has none, whatever it said last."""

    name = "replication_lag"
    limit = 10
    unit = Unit.SECONDS

    def read(self, connection: Connection[Row], job: Job) -> float:  # noqa: ARG002
        """The largest lag."""
        row = connection.execute(
            "SELECT count(*) FILTER (WHERE state IS NULL), coalesce(extract(epoch FROM"
            " max(replay_lag) FILTER (WHERE replay_lsn < pg_current_wal_lsn())), 0) " + STANDBYS
        ).fetchone()
        assert row is not None
        if row[0]:
            raise UnreadableError("the role may not see standbys; grant it pg_monitor")
        return float(row[1])
