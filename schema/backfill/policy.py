"""What to do about a failed batch, by SQLSTATE, and when failures are too many to go on."""

import random
from collections import deque
from enum import StrEnum

import psycopg

PAUSE_MAX_S = 5.0
"""Longest pause between two attempts at a batch."""

WINDOW = 50
"""Batches that the circuit breaker looks at."""


class Action(StrEnum):
    """What to do about a failed batch."""

    RETRY = "retry"
    """Try it again after a pause, with a new connection when the old one is gone."""
    LOCKED = "locked"
    """The same, a few times; then with fewer rows, down to the locked one, which is left for the sweep."""
    PRIMARY = "primary"
    """The server became a standby: connect anew, to one that takes writes."""
    HALVE = "halve"
    """It took too long: try again with half the rows."""
    REREAD = "reread"
    """Read again once: a row that was referred to is gone. If it fails again, as BISECT."""
    BISECT = "bisect"
    """A row is at fault: halve down to it, and set it aside."""
    ABORT = "abort"
    """Nothing that trying again could change."""


_BY_STATE = {
    "40001": Action.RETRY,
    "40P01": Action.RETRY,
    "55P03": Action.LOCKED,
    "57P01": Action.RETRY,
    "57P02": Action.RETRY,
    "57P03": Action.RETRY,
    "57P05": Action.RETRY,
    "53300": Action.RETRY,
    "25P03": Action.RETRY,
    "25P04": Action.RETRY,
    "57014": Action.HALVE,
    "23503": Action.REREAD,
    "23502": Action.BISECT,
    "23505": Action.BISECT,
    "23514": Action.BISECT,
    "25006": Action.PRIMARY,
}
_BY_CLASS = {"08": Action.RETRY, "22": Action.BISECT}


def action(error: psycopg.Error) -> Action:
    """Tell what to do about an error; one without SQLSTATE is a connection that broke, when the driver says so."""
    if error.sqlstate is None:
        return Action.RETRY if isinstance(error, psycopg.OperationalError) else Action.ABORT
    return _BY_STATE.get(error.sqlstate) or _BY_CLASS.get(error.sqlstate[:2]) or Action.ABORT


def pause_s(failures: int) -> float:
    """Seconds to wait after so many failures of one batch: growing, with jitter, capped."""
    return min(PAUSE_MAX_S, 0.05 * 2.0**failures) * random.uniform(0.5, 1)  # noqa: S311 - jitter


class Breaker:
    """Opens when more than half of the last fifty batches failed, or were a row set aside."""

    def __init__(self) -> None:
        self._failed: deque[bool] = deque(maxlen=WINDOW)

    def note(self, *, failed: bool) -> None:
        """Take a batch into account."""
        self._failed.append(failed)

    @property
    def is_open(self) -> bool:
        """Whether to stop."""
        return len(self._failed) == WINDOW and sum(self._failed) > WINDOW // 2
