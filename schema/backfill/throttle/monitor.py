"""Reads the signals, one after the other, and says which of them hold the backfill."""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import Connection

from schema.backfill.job import Job, Row
from schema.backfill.throttle.archive import ArchiveQueue
from schema.backfill.throttle.dead_rows import DeadRows
from schema.backfill.throttle.lag_bytes import LagBytes
from schema.backfill.throttle.lag_time import LagTime
from schema.backfill.throttle.oldest_xmin import OldestXmin
from schema.backfill.throttle.signal import Hold, Signal, Unit, UnreadableError
from schema.backfill.throttle.vacuum import Vacuum
from schema.backfill.throttle.wal_rate import WalRate
from schema.errors import UsageError

SIGNALS: Sequence[type[Signal]] = (LagBytes, LagTime, WalRate, ArchiveQueue, Vacuum, DeadRows, OldestXmin)

LIMITS: Mapping[str, type[Signal]] = {signal.name: signal for signal in SIGNALS}
"""The signals by name."""

READ_TIMEOUT = "5s"
"""How long one signal is waited for."""


class Monitor:
    """The signals that are looked at, with their limits."""

    def __init__(self, job: Job, limits: Mapping[str, float | None]) -> None:
        if unknown := sorted(set(limits) - set(LIMITS)):
            raise UsageError(f"no throttle signal is named {unknown[0]!r}", hint=f"There are: {', '.join(LIMITS)}.")
        self._job = job
        self._signals = [
            (signal(), limit) for signal in SIGNALS if (limit := limits.get(signal.name, signal.limit)) is not None
        ]

    def poll(self, connection: Connection[Row]) -> tuple[Hold, ...]:
        """Read every signal, each in a transaction of its own; return those that hold.

        One that can't be read holds too.

        Raises:
            psycopg.Error: the connection is lost.
        """
        return tuple(hold for signal, limit in self._signals if (hold := self._look(connection, signal, limit)))

    def _look(self, connection: Connection[Row], signal: Signal, limit: float) -> Hold | None:
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL statement_timeout = '{READ_TIMEOUT}'; SET LOCAL jit = off")
                value = signal.read(connection, self._job)
        except UnreadableError as error:
            return Hold(signal.name, f"it cannot be read: {error}")
        except psycopg.Error as error:
            if connection.closed:
                raise
            return Hold(signal.name, f"it cannot be read: {error.diag.message_primary or type(error).__name__}")
        if value <= limit:
            return None
        return Hold(signal.name, f"{shown(value, signal.unit)}, the limit is {shown(limit, signal.unit)}")


def shown(value: float, unit: Unit) -> str:
    """A value for people."""
    if unit in (Unit.BYTES, Unit.BYTES_PER_SECOND):
        return f"{value / 1024**2:,.1f} MiB" + ("/s" if unit is Unit.BYTES_PER_SECOND else "")
    if unit is Unit.SECONDS:
        return f"{value:.1f} s"
    return f"{value:.2f} {unit}" if unit is Unit.RATIO else f"{value:,.0f} {unit}"
