"""How large the next batch of a worker is, and how long it rests before."""

from schema.backfill.settings import Settings

WEIGHT = 0.3
"""Of the newest batch in the moving average of the time per row."""

GROWTH_MAX = 1.5
"""Most by which a size grows from one batch to the next; it shrinks at once."""


class Pace:
    """A moving average of the time per parent row, and the batch size that fits the target time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._size: float = settings.batch_size or settings.batch_start
        self._row_s: float | None = None
        self._cycle_s: float | None = None

    @property
    def size(self) -> int:
        """Parent rows of the next batch."""
        return int(self._size)

    @property
    def rate(self) -> float | None:
        """Parent rows per second lately, rests included."""
        return 1 / self._cycle_s if self._cycle_s else None

    def note(self, parents: int, seconds: float) -> None:
        """Take a committed batch into account."""
        if not parents:
            return
        self._row_s = _average(self._row_s, seconds / parents)
        self._cycle_s = _average(self._cycle_s, (seconds + self.rest(seconds)) / parents)
        settings = self._settings
        if settings.batch_size is None:
            fitting = settings.target.total_seconds() / self._row_s if self._row_s else settings.batch_max
            self._size = min(max(fitting, settings.batch_min), settings.batch_max, self._size * GROWTH_MAX)

    def shrink(self) -> None:
        """Halve the size at once: somebody waits for us."""
        if self._settings.batch_size is None:
            self._size = max(self._size / 2, self._settings.batch_min)

    def rest(self, seconds: float) -> float:
        """Seconds to rest after a batch that took `seconds`; never so long that the lease is in danger."""
        return min(seconds * (1 / self._settings.duty - 1), self._settings.lease.total_seconds() / 2)


def _average(before: float | None, now: float) -> float:
    return now if before is None else before + WEIGHT * (now - before)
