"""How a run is told to stop: after the batches at hand, or at once."""

import threading
from contextlib import suppress
from enum import StrEnum

import psycopg
from psycopg import Connection

from schema.backfill.job import Row


class End(StrEnum):
    """Why a call ended."""

    COMPLETE = "complete"
    MISMATCH = "mismatch"
    """The verification found mismatches; the run is over, and failed."""
    PAUSED = "paused"
    TIME = "time"
    INTERRUPTED = "interrupted"


class Stop:
    """Shared by the threads of one call; safe to use from a signal handler."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._connections: set[Connection[Row]] = set()
        self.end: End | None = None
        """Why, by who asked first; None after an error."""
        self.is_aborted = False
        """Whether statements at work were cancelled."""

    @property
    def is_requested(self) -> bool:
        """Whether to begin no further batch."""
        return self._event.is_set()

    def request(self, end: End | None) -> None:
        """Let every worker finish its batch and begin no other."""
        if not self._event.is_set():
            self.end = end
            self._event.set()

    def abort(self) -> None:
        """Cancel the batches at work too; they are rolled back."""
        self.is_aborted = True
        self.request(End.INTERRUPTED)
        for connection in list(self._connections):
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=2)

    def wait(self, seconds: float) -> bool:
        """Sleep, no longer than until a stop is requested; return whether it is."""
        return self._event.wait(max(seconds, 0)) if seconds > 0 else self.is_requested

    def watch(self, connection: Connection[Row]) -> None:
        """Have this connection cancelled by `abort`."""
        self._connections.add(connection)

    def unwatch(self, connection: Connection[Row]) -> None:
        """Forget a connection."""
        self._connections.discard(connection)
