"""How old the oldest snapshot is that keeps dead rows from being removed."""

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.signal import Signal, Unit, UnreadableError


class OldestXmin(Signal):
    """Age, in transactions, of the oldest snapshot: of a backend, a replication slot or a prepared transaction."""

    name = "oldest_xmin"
    limit = 1_000_000
    unit = Unit.TRANSACTIONS

    def read(self, connection: Connection[Row], job: Job) -> float:  # noqa: ARG002
        """The age."""
        row = connection.execute(
            "SELECT pg_has_role('pg_read_all_stats', 'USAGE'), coalesce(max(age(held.xmin)), 0) FROM ("
            " SELECT backend_xmin AS xmin FROM pg_stat_activity"
            " UNION ALL SELECT xmin FROM pg_replication_slots"
            " UNION ALL SELECT transaction FROM pg_prepared_xacts) AS held"
        ).fetchone()
        assert row is not None
        if not row[0]:
            raise UnreadableError("the role may not see other sessions' snapshots; grant it pg_monitor")
        return float(row[1])
