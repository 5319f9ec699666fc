"""How much WAL the server writes, whoever makes it write."""

import time

from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.signal import Signal, Unit


class WalRate(Signal):
    """Bytes of WAL per second since the last look; the first look has nothing to compare with."""

    name = "wal_rate"
    limit = 64 * 1024**2
    unit = Unit.BYTES_PER_SECOND

    def __init__(self) -> None:
        self._last: tuple[float, int] | None = None

    def read(self, connection: Connection[Row], job: Job) -> float:  # noqa: ARG002
        """The rate."""
        row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
        assert row is not None
        last, self._last = self._last, (time.monotonic(), int(row[0]))
        if last is None:
            return 0
        return (self._last[1] - last[1]) / max(self._last[0] - last[0], 0.001)
