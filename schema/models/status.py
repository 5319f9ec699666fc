"""Statuses and kinds: varchar in the database, closed sets in Python."""

from enum import StrEnum


class SessionStatus(StrEnum):
    """Life of a session."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    PREPARING = "PREPARING"
    PULLING = "PULLING"
    PREPARED = "PREPARED"
    CREATING = "CREATING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    RUNNING_DEGRADED = "RUNNING_DEGRADED"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


TERMINAL_SESSION_STATUSES = (SessionStatus.ERROR, SessionStatus.TERMINATED, SessionStatus.CANCELLED)
"""Statuses a session never leaves; its name is free again."""


class KernelStatus(StrEnum):
    """Life of a kernel."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    PREPARING = "PREPARING"
    PULLING = "PULLING"
    PREPARED = "PREPARED"
    CREATING = "CREATING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


TERMINAL_KERNEL_STATUSES = (KernelStatus.ERROR, KernelStatus.TERMINATED, KernelStatus.CANCELLED)
"""Statuses a kernel never leaves."""


class SessionType(StrEnum):
    """What a session is for."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
    INFERENCE = "inference"
    SYSTEM = "system"


class ClusterMode(StrEnum):
    """Whether a session's kernels share one agent."""

    SINGLE_NODE = "single-node"
    MULTI_NODE = "multi-node"


class SlotType(StrEnum):
    """How the quantity of a resource slot is counted."""

    COUNT = "count"
    BYTES = "bytes"
    UNIQUE = "unique"


class RunState(StrEnum):
    """State of a backfill run."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETE = "complete"
    FAILED = "failed"


ACTIVE_RUN_STATES = (RunState.RUNNING, RunState.PAUSED)
"""States in which a run goes on when the command is given again; at most one such run per job."""


class RunPhase(StrEnum):
    """What the chunks of a backfill run are walked for; each phase walks all of them."""

    BATCHES = "batches"
    SWEEP = "sweep"
    VERIFY = "verify"


class ChunkState(StrEnum):
    """State of one key range of a backfill run."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"
