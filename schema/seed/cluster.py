"""What sessions stand on: the machines and images that every seed shares, and one seed's own tenant."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid5

from schema.models.status import SlotType

ENDS_AT: Final = datetime(2026, 10, 1, tzinfo=UTC)
"""Last moment of the seeded history; fixed, so that two runs on different days are equal."""

SPAN: Final = timedelta(days=3 * 365)
"""Length of the seeded history."""

_NAMESPACE: Final = UUID("6f0e3c52-6d0b-5a54-9d0a-2f8c8a1f9d11")
_USERS: Final = 200
_GROUPS: Final = 12
_ENDPOINTS: Final = 16
_AGENTS_PER_POOL: Final = 12

_POOLS: Final = (("default", "x86_64"), ("gpu-a100", "x86_64"), ("gpu-h100", "x86_64"), ("arm", "aarch64"))
_REGISTRY: Final = "cr.example.com"
_IMAGE_NAMES: Final = ("python", "python-pytorch", "python-tensorflow", "ngc-nemo", "r-base", "vllm", "triton-server")
_IMAGE_TAGS: Final = ("3.10-ubuntu20.04", "3.11-ubuntu22.04", "24.09-cuda12.6")

SLOT_TYPES: Final = (
    ("cpu", SlotType.COUNT, "CPU", 10),
    ("mem", SlotType.BYTES, "Memory", 20),
    ("cuda.device", SlotType.COUNT, "CUDA GPU", 30),
    ("cuda.shares", SlotType.COUNT, "Fractional CUDA GPU", 40),
    ("rocm.device", SlotType.COUNT, "ROCm GPU", 50),
    ("tpu.device", SlotType.COUNT, "TPU", 60),
    ("ipu.device", SlotType.COUNT, "IPU", 70),
    ("atom.device", SlotType.COUNT, "ATOM", 80),
    ("atom-plus.device", SlotType.COUNT, "ATOM+", 90),
    ("atom-max.device", SlotType.COUNT, "ATOM Max", 100),
    ("gaudi2.device", SlotType.COUNT, "Gaudi 2", 110),
    ("warboy.device", SlotType.COUNT, "Warboy", 120),
    ("rngd.device", SlotType.COUNT, "RNGD", 130),
    ("hyperaccel-lpu.device", SlotType.COUNT, "Hyperaccel LPU", 140),
)
"""As the first revision brings them, for databases that were made without it."""

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """An image, and the name that kernels keep of it."""

    id: str
    registry: str
    project: str
    name: str
    tag: str
    architecture: str

    @property
    def canonical(self) -> str:
        """`registry/project/name:tag`."""
        return f"{self.registry}/{self.project}/{self.name}:{self.tag}"


@dataclass(frozen=True, slots=True)
class Pool:
    """A scaling group with its agents and the images that run there."""

    name: str
    agents: tuple[str, ...]
    images: tuple[Image, ...]


@dataclass(frozen=True, slots=True)
class User:
    """A person with a key."""

    uuid: str
    access_key: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything that a session row refers to. `domain`, `groups`, `users` and `endpoints` are one seed's own."""

    domain: str
    groups: tuple[str, ...]
    users: tuple[User, ...]
    endpoints: tuple[str, ...]
    pools: tuple[Pool, ...]


def images() -> tuple[Image, ...]:
    """The images of the shared cluster, with the ids that they get unless the database has them already."""
    found = []
    for architecture in ("x86_64", "aarch64"):
        for name in _IMAGE_NAMES:
            for tag in _IMAGE_TAGS:
                key = str(uuid5(_NAMESPACE, f"image/{name}:{tag}/{architecture}"))
                found.append(Image(key, _REGISTRY, "stable", name, tag, architecture))
    return tuple(found)


def cluster(seed: int, known_images: tuple[Image, ...]) -> Cluster:
    """One seed's cluster over the images as the database knows them."""
    pools = tuple(
        Pool(
            name,
            tuple(f"i-{name}-{number:02}" for number in range(_AGENTS_PER_POOL)),
            tuple(image for image in known_images if image.architecture == architecture),
        )
        for name, architecture in _POOLS
    )
    return Cluster(
        domain=domain_name(seed),
        groups=tuple(_id(seed, "group", number) for number in range(_GROUPS)),
        users=tuple(
            User(key := _id(seed, "user", number), f"AKIA{key.replace('-', '').upper()[:16]}")
            for number in range(_USERS)
        ),
        endpoints=tuple(_id(seed, "endpoint", number) for number in range(_ENDPOINTS)),
        pools=pools,
    )


def domain_name(seed: int) -> str:
    """Name of the domain that marks a seed's rows: it is there if and only if the seed is."""
    return f"seed-{seed}"


def shared_rows(known_images: tuple[Image, ...]) -> dict[str, list[Row]]:
    """Rows that every seed wants and the first one brings, by table, parents first."""
    return {
        "scaling_groups": [(name, uuid5(_NAMESPACE, f"scaling_group/{name}")) for name, _ in _POOLS],
        "agents": [
            (
                f"i-{name}-{number:02}",
                "ALIVE" if number else "LOST",
                name,
                architecture,
                f"tcp://10.0.{at}.{number}:6001",
            )
            for at, (name, architecture) in enumerate(_POOLS)
            for number in range(_AGENTS_PER_POOL)
        ],
        "images": [
            (image.id, image.registry, image.project, image.name, image.tag, image.architecture)
            for image in known_images
        ],
        "resource_slot_types": [(name, kind.value, display, rank) for name, kind, display, rank in SLOT_TYPES],
        "system_session_environ": [
            (key, value, ENDS_AT - SPAN, ENDS_AT - SPAN)
            for key, value in (("LANG", "en_US.UTF-8"), ("PIP_INDEX_URL", "https://pypi.internal/simple"))
        ],
    }


def tenant_rows(seed: int, tenant: Cluster) -> dict[str, list[Row]]:
    """Rows of one seed's own, by table, parents first."""
    domain = tenant.domain
    return {
        "domains": [(domain, _id(seed, "domain", 0))],
        "groups": [(key, f"project-{number}", domain) for number, key in enumerate(tenant.groups)],
        "users": [
            (user.uuid, f"user{number}@{domain}.example.com", f"user{number}", domain)
            for number, user in enumerate(tenant.users)
        ],
        "storage_volumes": [
            (_id(seed, "volume", number), f"{domain}.vol{number}", f"nas{number}.internal", backend, deleted)
            for number, (backend, deleted) in enumerate((("nfs", None), ("cephfs", None), ("vfs", ENDS_AT - SPAN / 2)))
        ],
        "endpoints": [
            (
                *(key, f"model-{number}", domain, tenant.groups[number % _GROUPS], tenant.users[number].uuid),
                *(
                    tenant.pools[number % len(_POOLS)].name,
                    1 + number % 3,
                    f"https://model-{number}.{domain}.example.com",
                ),
                *("created" if number % 4 else "destroyed", ENDS_AT - SPAN * (number + 1) / (_ENDPOINTS + 1)),
            )
            for number, key in enumerate(tenant.endpoints)
        ],
    }


def _id(seed: int, kind: str, number: int) -> str:
    return str(uuid5(_NAMESPACE, f"{seed}/{kind}/{number}"))
