"""One block of sessions as COPY text, made from nothing but the seed and the block's number."""

from bisect import bisect
from dataclasses import dataclass
from random import Random
from typing import Final

from schema.models.status import ClusterMode, KernelStatus, SessionStatus, SessionType
from schema.seed import shapes
from schema.seed.copytext import BLOCK_TABLES, NULL
from schema.seed.drafting import Pools, draft
from schema.seed.drafts import Era, KernelDraft, SessionDraft
from schema.seed.lives import STARTS_AT, life, stamp
from schema.seed.mistakes import DIVERGENCES, MISTAKES
from schema.seed.profile import Profile
from schema.seed.shapes import pick

BLOCK_SIZE: Final = 2000
"""Sessions of a block; each block is one transaction."""

_ERA_ENDS: Final = (0.25, 0.45, 0.6, 0.78)
"""Positions in the history at which one era gives way to the next, give or take some weeks."""

_TIME_ORDERED_FROM: Final = 0.5
"""Position in the history from which ids are UUIDv7; random before."""

_DIVERGENCES_PER_THOUSAND: Final = 3
_EPOCH_MS: Final = int(STARTS_AT.timestamp()) * 1000
_WITHOUT_AGENT: Final = (KernelStatus.PENDING, KernelStatus.CANCELLED)
_WITH_STATISTICS: Final = (KernelStatus.RUNNING, KernelStatus.TERMINATED, KernelStatus.TERMINATING)


@dataclass(frozen=True, slots=True)
class History:
    """Which sessions are to be made; its blocks don't depend on each other."""

    seed: int
    profile: Profile
    sessions: int

    @property
    def blocks(self) -> int:
        """Number of blocks; the last may be smaller than the others."""
        return -(-self.sessions // BLOCK_SIZE)


Block = dict[str, list[str]]
"""Some sessions and what hangs on them: lines of COPY text, by table of `BLOCK_TABLES`."""


def make_block(history: History, pools: Pools, number: int) -> Block:
    """Make the block of this number, counted from 0."""
    first = number * BLOCK_SIZE
    writer = _Writer(history, pools, number)
    for index in range(first, min(first + BLOCK_SIZE, history.sessions)):
        writer.session(index)
    return writer.rows


class _Writer:
    def __init__(self, history: History, pools: Pools, number: int) -> None:
        self.history = history
        self.pools = pools
        # Seeded by text, which is hashed by SHA-512. Only `random()` and `getrandbits()` are drawn on: they hand out
        # the generator's words as they are, while what is built on them has changed between releases of Python.
        self.rng = Random(f"schemactl/{history.seed}/{number}")  # noqa: S311
        self.rows: Block = {table: [] for table in BLOCK_TABLES}
        self.mistakes: dict[int, int] = {}
        self.divergences: dict[int, int] = {}
        self.last_batch = ""
        if history.profile is Profile.ERAS:
            for start in range(number * BLOCK_SIZE, (number + 1) * BLOCK_SIZE, 1000):
                self._mark(start)

    def _mark(self, start: int) -> None:
        """Choose which of a thousand sessions go wrong; the ways take turns, so that none is missing by chance."""
        turn = start // 1000
        self.mistakes[start + int(self.rng.random() * 1000)] = turn % len(MISTAKES)
        for nth in range(turn * _DIVERGENCES_PER_THOUSAND, (turn + 1) * _DIVERGENCES_PER_THOUSAND):
            self.divergences[start + int(self.rng.random() * 1000)] = nth % len(DIVERGENCES)

    def session(self, index: int) -> None:
        """Add the rows of one session."""
        rng = self.rng
        position = (index + rng.random()) / self.history.sessions
        course = life(rng, position)
        mistake = MISTAKES[self.mistakes[index]] if index in self.mistakes else None
        diverges = mistake is None and index in self.divergences
        era = mistake.era if mistake else Era(bisect(_ERA_ENDS, position + (rng.random() - 0.5) * 0.06))
        drafted = draft(
            rng,
            self.pools,
            era,
            course,
            time_ordered=position >= _TIME_ORDERED_FROM,
            marked=diverges or mistake is not None,
            replicas=diverges,
        )
        if mistake:
            mistake.spoil(drafted)
        elif diverges:
            DIVERGENCES[self.divergences[index]](drafted)
        elif course.status is SessionStatus.CANCELLED and rng.random() < 0.6:
            drafted.kernels = []
        self._write(index, drafted)

    def _id(self, drafted: SessionDraft) -> str:
        bits = self.rng.getrandbits(122)
        low = bits & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        if drafted.time_ordered:
            return f"{_EPOCH_MS + drafted.life.created:012x}7{bits >> 62 & 0xFFF:03x}{low:016x}"
        return f"{bits >> 74:012x}4{bits >> 62 & 0xFFF:03x}{low:016x}"

    def _write(self, index: int, drafted: SessionDraft) -> None:
        rng, cluster, course = self.rng, self.pools.cluster, drafted.life
        session_id = self._id(drafted)
        name = pick(rng, shapes.NAMES)
        # The index makes the name unique, as that of a live session has to be.
        if course.live or rng.random() < 0.5:
            name = f"{name}-{index:x}"
        user = pick(rng, cluster.users)
        user_uuid = user.uuid if rng.random() > 0.01 else self._id(drafted)
        owner = f"{cluster.domain}\t{pick(rng, cluster.groups)}\t{user_uuid}\t{user.access_key}"
        kind = course.session_type.value
        size = len(drafted.kernels) or 1
        mode = ClusterMode.MULTI_NODE if size > 1 and rng.random() < 0.6 else ClusterMode.SINGLE_NODE
        priority = 10 if rng.random() < 0.9 else 20
        options = drafted.options
        if not options:
            nested = drafted.era is Era.OPTIONS_NESTED
            options = f'{{"kernel_groups": [{", ".join([group.spell(nested) for group in drafted.groups])}]}}'
        script = pick(rng, shapes.SCRIPTS) if rng.random() < 0.05 else NULL
        command = drafted.kernels[0].command if drafted.kernels else NULL
        created, started, terminated = stamp(course.created), stamp(course.started), stamp(course.terminated)
        recorded = NULL if drafted.era is Era.KERNEL_LISTS and rng.random() < 0.05 else created
        self.rows["sessions"].append(
            f"{session_id}\t{name}\t{kind}\t{course.status.value}\t{course.status_info or NULL}\t{mode.value}\t{size}\t"
            f"{priority}\t{owner}\t{drafted.pool.name}\t{drafted.environ}\t{options}\t{script}\t"
            f"{command}\t{drafted.requested_starts_at}\t{started}\t{drafted.batch_timeout}\t{terminated}\t{recorded}\t"
            f"{course.result}\n"
        )
        head = f"{session_id}\t{name}\t{kind}\t{mode.value}\t{size}"
        changed = stamp(course.terminated or course.started or course.created)
        tail = (
            f"{script}\t{started}\t{terminated}\t{course.kernel_status.value}\t{changed}\t{recorded}\t{course.result}"
        )
        for rank, kernel in enumerate(drafted.kernels):
            self._write_kernel(drafted, kernel, rank, head, owner, tail)
        self._write_relations(session_id, drafted)

    def _write_kernel(
        self, drafted: SessionDraft, kernel: KernelDraft, rank: int, head: str, owner: str, tail: str
    ) -> None:
        """Add a kernel; `head`, `owner` and `tail` are what it shares with the session's others, in column order."""
        rng, course, image = self.rng, drafted.life, kernel.image
        kernel_id = self._id(drafted)
        number, rank = (kernel.number, rank) if drafted.counted else (1, 0)
        image_id = image.id if drafted.image_known else NULL
        agent = NULL if course.kernel_status in _WITHOUT_AGENT else pick(rng, drafted.pool.agents)
        container = f"{rng.getrandbits(256):064x}" if course.started is not None else NULL
        stat = NULL
        if course.kernel_status in _WITH_STATISTICS:
            before, after = pick(rng, self.pools.last_stats)
            stat = f"{before}{rng.getrandbits(40)}{after}"
        self.rows["kernels"].append(
            f"{kernel_id}\t{head}\t{kernel.role}\t{number}\t{rank}\t{kernel.role}{kernel.number}\t"
            f"{drafted.pool.name}\t{agent}\t{owner}\t{image.canonical}\t{image_id}\t"
            f"{image.architecture}\t{image.registry}\t{image.tag}\t{container}\t{kernel.environ}\t"
            f"{kernel.resource_opts}\t{kernel.ports}\t{kernel.command}\t{tail}\t{stat}\n"
        )
        free_at = stamp(course.terminated)
        allocations = self.rows["resource_allocations"]
        for slot_name, quantity in kernel.slots:
            used = NULL if agent == NULL else quantity
            allocations.append(f"{kernel_id}\t{slot_name}\t{self._id(drafted)}\t{quantity}\t{used}\t{free_at}\n")

    def _write_relations(self, session_id: str, drafted: SessionDraft) -> None:
        rng, course = self.rng, drafted.life
        if course.session_type is SessionType.BATCH:
            # On an earlier session of the same block, so that blocks need nothing of each other.
            if self.last_batch and rng.random() < 0.1:
                self.rows["session_dependencies"].append(f"{session_id}\t{self.last_batch}\n")
            self.last_batch = session_id
        elif course.session_type is SessionType.INFERENCE:
            endpoint = pick(rng, self.pools.cluster.endpoints)
            status = "healthy" if course.status is SessionStatus.RUNNING else "terminated"
            ratio = pick(rng, ("1", "0.5", "0.25"))
            self.rows["routings"].append(
                f"{self._id(drafted)}\t{endpoint}\t{session_id}\t{status}\t{ratio}\t{stamp(course.created)}\n"
            )
