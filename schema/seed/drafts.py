"""A session before it is written: what may still be changed about it. Texts are COPY text throughout."""

from dataclasses import dataclass, field
from enum import IntEnum

from schema.seed.cluster import Image, Pool
from schema.seed.copytext import NULL
from schema.seed.lives import Life


class Era(IntEnum):
    """Where a release kept what a session was asked for, in the order of the releases."""

    KERNEL_LISTS = 0
    """Environ on the kernels only."""
    SESSION_HAS_MORE = 1
    """Environ on the kernels, and on the session with what launching added."""
    SESSION_ONLY = 2
    """Environ on the session only; the kernels' lists are empty."""
    OPTIONS_FLAT = 3
    """Kernel groups in the options, in the flat shape."""
    OPTIONS_NESTED = 4
    """Kernel groups in the options, in the nested shape."""


@dataclass(slots=True)
class KernelDraft:
    """What one kernel was asked for."""

    role: str
    number: int
    """Counted from 1 within the role."""
    image: Image
    environ: str
    resource_opts: str
    ports: str
    command: str
    slots: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class GroupOption:
    """A kernel group in the options, each part as JSON."""

    role: str
    replicas: int
    image_id: str
    requested: str
    resource_opts: str
    environ: str
    starts_at: str
    batch_timeout: str

    def spell(self, nested: bool) -> str:
        """The group as JSON, in the shape of its release."""
        inputs = f'"resources": {self.requested}, "resource_opts": {self.resource_opts}, "image_id": "{self.image_id}"'
        if nested:
            inputs = f'"resource_input": {{{inputs}}}'
        return (
            f'{{"role": "{self.role}", "replica_count": {self.replicas}, "execution_spec": {{{inputs}, '
            f'"environ": {self.environ}, "starts_at": {self.starts_at}, '
            f'"batch_timeout_sec": {self.batch_timeout}}}}}'
        )


@dataclass(slots=True)
class SessionDraft:
    """What a session was asked for. The first kernel represents its role: lowest index, lowest rank."""

    era: Era
    life: Life
    pool: Pool
    time_ordered: bool
    """Its ids are UUIDv7; random otherwise."""
    counted: bool = True
    """Its kernels have an index and a rank each; some old releases gave all the same."""
    image_known: bool = True
    """Its kernels refer to their image; some old releases kept its name only."""
    environ: str = NULL
    options: str = ""
    """When empty, spelled from `groups`."""
    requested_starts_at: str = NULL
    batch_timeout: str = NULL
    groups: list[GroupOption] = field(default_factory=list)
    kernels: list[KernelDraft] = field(default_factory=list)
