"""How much of a table that the backfill changes is dead rows."""

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.signal import Signal, Unit

ROWS_MIN = 50_000
"""Fewer dead rows than these are no matter, whatever their share."""


class DeadRows(Signal):
    """Dead rows per live one, of the worst table. Above autovacuum's own threshold, which it waits for."""

    name = "dead_rows"
    limit = 0.5
    unit = Unit.RATIO

    def read(self, connection: Connection[Row], job: Job) -> float:
        """The ratio."""
        row = connection.execute(
            "SELECT coalesce(max(n_dead_tup::float8 / greatest(n_live_tup, 1)), 0) FROM pg_stat_user_tables"
            " WHERE n_dead_tup >= %s AND relid = ANY("
            " SELECT to_regclass(quote_ident(name)) FROM unnest(%s::text[]) AS name)",
            (ROWS_MIN, list(job.updated_tables)),
        ).fetchone()
        assert row is not None
        return float(row[0])
