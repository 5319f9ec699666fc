"""How many finished WAL files wait to be archived."""

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.signal import Signal, Unit, UnreadableError

# By the names of files and not by `pg_ls_archive_statusdir`, which a role without pg_monitor may not call. A name is
# the timeline, then the position in two parts of which the second counts up to 4 GB.
_WAITING = """
    SELECT current_setting('archive_mode'), a.last_failed_time > coalesce(a.last_archived_time, '-infinity'),
           CASE WHEN a.last_archived_wal ~ '^[0-9A-F]{24}' THEN
               floor(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') / s.size) - 1
               - (('x' || substr(a.last_archived_wal, 9, 8))::bit(32)::bigint * (4294967296 / s.size)
                  + ('x' || substr(a.last_archived_wal, 17, 8))::bit(32)::bigint)
           END
    FROM pg_stat_archiver AS a,
         (SELECT pg_size_bytes(current_setting('wal_segment_size')) AS size) AS s
"""


class ArchiveQueue(Signal):
    """WAL files between the last archived one and the one being written; 0 where nothing is archived."""

    name = "archive_queue"
    limit = 32
    unit = Unit.FILES

    def read(self, connection: Connection[Row], job: Job) -> float:  # noqa: ARG002
        """The number of files."""
        row = connection.execute(_WAITING).fetchone()
        assert row is not None
        mode, fails, waiting = row
        if mode == "off":
            return 0
        if waiting is None and fails:
            raise UnreadableError("the archiver fails, and has archived nothing yet")
        return max(float(waiting or 0), 0)
