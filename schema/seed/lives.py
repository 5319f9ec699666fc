"""How a session's life went: its status, its time stamps, and what was said about it."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from schema.models.status import KernelStatus, SessionStatus, SessionType
from schema.seed.cluster import ENDS_AT, SPAN
from schema.seed.copytext import NULL, escape
from schema.seed.shapes import pick

STARTS_AT: Final = ENDS_AT - SPAN
SPAN_MS: Final = SPAN // timedelta(milliseconds=1)

_LIVE_FROM: Final = 0.97
"""Position in the history from which sessions are still alive; before it only a few are."""

_TRACE: Final = escape(
    "RuntimeError: failed to start the container\nTraceback (most recent call last):\n"
    + "".join(
        f'  File "/opt/manager/agent/stage_{number}.py", line {101 + number}, in create_kernel\n'
        f"    await self.stage_{number}(kernel_id, config, cluster_info)\n"
        for number in range(9)
    )
)
_ENDED: Final = ("user-requested", "self-terminated", "idle-timeout", "force-terminated", "task-finished")
_STARTING: Final = (SessionStatus.PREPARING, SessionStatus.PULLING, SessionStatus.PREPARED, SessionStatus.CREATING)
_TYPES: Final = (*[SessionType.INTERACTIVE] * 11, *[SessionType.BATCH] * 7, SessionType.INFERENCE, SessionType.SYSTEM)


@dataclass(slots=True)
class Life:
    """Times are milliseconds since the start of the history; None for what did not happen."""

    session_type: SessionType
    status: SessionStatus
    kernel_status: KernelStatus
    status_info: str
    result: str
    created: int
    started: int | None
    terminated: int | None

    @property
    def live(self) -> bool:
        """Whether the session's name is still taken."""
        return self.terminated is None


def stamp(milliseconds: int | None) -> str:
    """A time as COPY text."""
    if milliseconds is None:
        return NULL
    return (STARTS_AT + timedelta(milliseconds=milliseconds)).isoformat()


def life(rng: Random, position: float) -> Life:
    """Draw the life of a session created at `position` (0 to 1) of the history."""
    session_type = pick(rng, _TYPES)
    created = int(position * SPAN_MS)
    draw = rng.random()
    left = SPAN_MS - created
    started = created + int(rng.random() * min(3_600_000, left))
    if position >= _LIVE_FROM:
        return _live(session_type, created, started, draw)
    if draw > 0.995:
        return _running(session_type, created, started)
    lasted = rng.random()
    terminated = started + int(lasted * lasted * lasted * min(14 * 86_400_000, SPAN_MS - started))
    if draw < 0.03:
        cancelled = pick(rng, ("user-requested", "pending-timeout"))
        status = SessionStatus.CANCELLED
        return Life(session_type, status, KernelStatus.CANCELLED, cancelled, "undefined", created, None, terminated)
    if draw < 0.05:
        status = SessionStatus.ERROR
        return Life(session_type, status, KernelStatus.ERROR, _TRACE, "failure", created, started, terminated)
    result = "success" if lasted < 0.9 else "failure"
    info = pick(rng, _ENDED)
    status = SessionStatus.TERMINATED
    return Life(session_type, status, KernelStatus.TERMINATED, info, result, created, started, terminated)


def _running(session_type: SessionType, created: int, started: int) -> Life:
    status, kernel_status = SessionStatus.RUNNING, KernelStatus.RUNNING
    return Life(session_type, status, kernel_status, "", "undefined", created, started, None)


def _live(session_type: SessionType, created: int, started: int, draw: float) -> Life:
    if draw < 0.8:
        return _running(session_type, created, started)
    if draw < 0.9:
        status, kernel_status, info = SessionStatus.PENDING, KernelStatus.PENDING, "no-available-instances"
    elif draw < 0.95:
        status = _STARTING[int(draw * 1000) % len(_STARTING)]
        kernel_status, info = KernelStatus(status.value), "creating"
    elif draw < 0.98:
        status, kernel_status, info = SessionStatus.RUNNING_DEGRADED, KernelStatus.RUNNING, "kernel-lost"
    else:
        status, kernel_status, info = SessionStatus.TERMINATING, KernelStatus.TERMINATING, "user-requested"
    runs = kernel_status in {KernelStatus.RUNNING, KernelStatus.TERMINATING}
    return Life(session_type, status, kernel_status, info, "undefined", created, started if runs else None, None)
