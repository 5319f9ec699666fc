"""How a job is run: every figure that an operator may change, with its unit."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta


@dataclass(frozen=True)
class Settings:
    """How a job is run."""

    batch_size: int | None = None
    """Parent rows per transaction; None lets the size adapt to `target`."""
    batch_start: int = 250
    batch_min: int = 50
    batch_max: int = 2000
    """First size, and bounds, of one that adapts."""
    target: timedelta = timedelta(milliseconds=75)
    """How long a batch should take."""
    duty: float = 0.5
    """Share of the time that a worker works, 0 to 1; it rests after each batch for the other part."""
    workers: int = 1
    """Connections that work, of this process."""
    chunk_size: int = 10_000
    """Parent rows per chunk, about."""
    max_time: timedelta | None = None
    """No batch is begun after this."""
    lease: timedelta = timedelta(seconds=30)
    """How long a chunk stays claimed without a batch, and how long a batch may do nothing."""
    lock_timeout: timedelta = timedelta(milliseconds=800)
    """How long a batch waits for one lock. Below the server's deadlock_timeout (default 1 s): in a deadlock with the
    application it is the batch that gives up, and is tried again."""
    statement_timeout: timedelta = timedelta(seconds=30)
    """How long one statement of a batch may take; one that takes longer is tried with half the rows."""
    attempts: int = 10
    """How often one batch is tried."""
    outage: timedelta = timedelta(minutes=5)
    """How long a server is tried that cannot be reached, or has no connection left; a failover takes its time."""
    older_wait: timedelta = timedelta(minutes=10)
    """How long transactions that are older than the run are waited for before its sweep."""
    limits: Mapping[str, float | None] = field(default_factory=dict)
    """Limits of throttle signals by name, in place of their own; None takes no notice of the signal."""

    def at_full_speed(self) -> "Settings":
        """The same for a quiet hour: no rests, longer batches, and no limit on what only slows the application."""
        return replace(
            self,
            duty=1.0,
            batch_start=500,
            target=timedelta(milliseconds=500),
            limits={"wal_rate": None, "dead_rows": None, **self.limits},
        )
