"""Whether a table that the backfill changes is being vacuumed."""

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.signal import Signal, Unit, UnreadableError


class Vacuum(Signal):
    """Tables of the application, among those whose rows the job changes, with a vacuum at work."""

    name = "vacuum"
    limit = 0
    unit = Unit.TABLES

    def read(self, connection: Connection[Row], job: Job) -> float:
        """The number of tables."""
        row = connection.execute(
            "SELECT count(*) FILTER (WHERE relid IS NULL), count(DISTINCT relid) FILTER (WHERE relid = ANY("
            " SELECT to_regclass(quote_ident(name)) FROM unnest(%s::text[]) AS name))"
            " FROM pg_stat_progress_vacuum WHERE datname = current_database()",
            (list(job.updated_tables),),
        ).fetchone()
        assert row is not None
        if row[0]:
            raise UnreadableError("the role may not see which table is being vacuumed; grant it pg_monitor")
        return float(row[1])
