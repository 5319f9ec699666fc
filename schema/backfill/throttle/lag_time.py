"""How far the furthest standby is behind, in time."""

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle import standbys
from schema.backfill.throttle.signal import Signal, Unit


class LagTime(Signal):
    """Replication lag in time. A standby that has replayed everything has none, whatever it said last."""

    name = "replication_lag"
    limit = 10
    unit = Unit.SECONDS

    def read(self, connection: Connection[Row], job: Job) -> float:  # noqa: ARG002
        """The largest lag."""
        return standbys.worst(
            connection, "CASE WHEN replay_lsn < pg_current_wal_lsn() THEN extract(epoch FROM replay_lag) END"
        )
