"""Draws what a session was asked for, the way the releases of its era kept it."""

from dataclasses import dataclass
from datetime import UTC, timedelta, timezone
from random import Random
from typing import Final

from schema.models.status import SessionType
from schema.seed import shapes
from schema.seed.cluster import Cluster
from schema.seed.copytext import NULL
from schema.seed.drafts import Era, GroupOption, KernelDraft, SessionDraft
from schema.seed.lives import STARTS_AT, Life, stamp
from schema.seed.shapes import EMPTY_ENVIRONMENT, Environment, Resources, pick

_CLUSTERS: Final = 0.13
"""Share of sessions with more than one kernel; with its sizes it gives 1.4 kernels a session."""

_KST: Final = timezone(timedelta(hours=9))


@dataclass(frozen=True, slots=True)
class Pools:
    """What the sessions of one history choose from."""

    cluster: Cluster
    environments: tuple[Environment, ...]
    resources: tuple[Resources, ...]
    last_stats: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, seed: int, cluster: Cluster) -> "Pools":
        """The pools of a seed."""
        rng = Random(f"schemactl/{seed}/pools")  # noqa: S311 - repeatable, not secret
        return cls(cluster, shapes.environments(rng, 512), shapes.resources(rng, 256), shapes.last_stats(rng, 64))


def draft(
    rng: Random, pools: Pools, era: Era, life: Life, *, time_ordered: bool, marked: bool, replicas: bool
) -> SessionDraft:
    """Draw one session.

    Args:
        rng: the block's.
        pools: the history's.
        era: of the release that made it.
        life: how it went.
        time_ordered: its ids are.
        marked: it gets a mistake or a divergence afterwards, so nothing may be missing that shows it.
        replicas: its last role has two kernels at least.
    """
    session = SessionDraft(era, life, pick(rng, pools.cluster.pools), time_ordered)
    if era is Era.KERNEL_LISTS and not marked:
        session.counted = rng.random() > 0.2
        session.image_known = rng.random() > 0.15
    environment = EMPTY_ENVIRONMENT if rng.random() < 0.08 else pick(rng, pools.environments)
    session.environ = _session_environ(rng, era, environment)
    batch = life.session_type is SessionType.BATCH
    starts_at = _requested_start(rng, life) if batch and rng.random() < 0.2 else None
    timeout = str(60 * (1 + int(rng.random() * 2880))) if batch and rng.random() < 0.7 else None
    if starts_at is not None and era is not Era.OPTIONS_FLAT:
        session.requested_starts_at = stamp(starts_at)
    session.batch_timeout = timeout or NULL
    starts_at_option = "null" if starts_at is None else f'"{_written(rng, starts_at)}"'
    with_options = era >= Era.OPTIONS_FLAT and (marked or rng.random() > 0.08)
    if not with_options:
        session.options = "{}" if era is Era.KERNEL_LISTS and rng.random() < 0.3 else '{"kernel_groups": []}'
    keeps_allocations = marked or rng.random() > 0.04
    image = pick(rng, session.pool.images)
    for role, count in _roles(rng, era, replicas):
        resources = pick(rng, pools.resources)
        opts = shapes.resource_opts(rng)
        role_image = image if rng.random() < 0.8 else pick(rng, session.pool.images)
        entries = _kernel_environ(rng, era, environment)
        ports = pick(rng, shapes.PORTS) if rng.random() < 0.15 else (NULL if rng.random() < 0.5 else "{}")
        command = pick(rng, shapes.COMMANDS) if batch or rng.random() < 0.05 else NULL
        for number in range(1, count + 1):
            session.kernels.append(
                KernelDraft(
                    role,
                    number,
                    role_image,
                    entries,
                    opts or NULL,
                    ports,
                    command,
                    resources.slots if keeps_allocations else (),
                )
            )
        if with_options:
            session.groups.append(
                GroupOption(
                    role,
                    count,
                    role_image.id,
                    resources.requested,
                    opts or "null",
                    environment.asked,
                    starts_at_option,
                    timeout or "null",
                )
            )
    if with_options and not marked:
        _disagree(rng, session)
    return session


def _requested_start(rng: Random, life: Life) -> int:
    """A session that has started did so when it was asked to, or later."""
    latest = life.started if life.started is not None else life.created + 86_400_000
    return life.created + int(rng.random() * (latest - life.created))


def _disagree(rng: Random, session: SessionDraft) -> None:
    """Some options name a role that has no kernel, or lack one that has."""
    draw = rng.random()
    if draw < 0.1 and len(session.groups) > 1:
        session.groups.pop()
    elif draw > 0.97:
        first = session.groups[0]
        session.groups.append(
            GroupOption("scheduler", 1, first.image_id, first.requested, "{}", "{}", first.starts_at, "null")
        )


def _roles(rng: Random, era: Era, replicas: bool) -> tuple[tuple[str, int], ...]:
    """Roles and their numbers of kernels; `main` comes first."""
    if not replicas and rng.random() >= _CLUSTERS:
        return (("main", 1),)
    draw = rng.random()
    size = (4 if replicas else 2) + int(draw * draw * 7)
    shape = rng.random()
    if shape < 0.15:
        return (("main", size),)
    worker = "worker" if era >= Era.OPTIONS_FLAT else "sub"
    if shape < 0.9 or size < 3:
        return (("main", 1), (worker, size - 1))
    return (("main", 1), ("ps", 1), (worker, size - 2))


def _session_environ(rng: Random, era: Era, environment: Environment) -> str:
    if era is Era.KERNEL_LISTS:
        return NULL if rng.random() < 0.5 else "{}"
    if era is Era.SESSION_ONLY and rng.random() < 0.5:
        return environment.asked
    return environment.launched


def _kernel_environ(rng: Random, era: Era, environment: Environment) -> str:
    if era is Era.SESSION_ONLY or environment is EMPTY_ENVIRONMENT:
        return NULL if rng.random() < 0.3 else "{}"
    if era >= Era.OPTIONS_FLAT and rng.random() < 0.2:
        return "{}"
    return environment.entries


def _written(rng: Random, milliseconds: int) -> str:
    """A time as clients wrote it: with an offset of theirs, or with Z."""
    moment = STARTS_AT + timedelta(milliseconds=milliseconds)
    if rng.random() < 0.5:
        return moment.astimezone(_KST).isoformat()
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if rng.random() < 0.5 else moment.isoformat()
