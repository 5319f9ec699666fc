"""The rows that a session's groups become: what enqueue writes and what a preview shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from schema.identity import EnvironKey, ImageID, KernelGroupRole, ResourceSlotName
from schema.spec.session import SessionSpec
from schema.write.resolve import ImageName, ResolvedImage


@dataclass(frozen=True)
class GroupRow:
    """A row of kernel_groups, and what its kernels carry besides."""

    role: KernelGroupRole
    image_id: ImageID | None
    """None where no database was asked."""
    shmem: int | None
    startup_command: str | None
    preopen_ports: tuple[int, ...]
    requested_starts_at: datetime | None
    batch_timeout_sec: int | None


@dataclass(frozen=True)
class SlotRow:
    """A row of kernel_group_resource_slots."""

    role: KernelGroupRole
    slot_name: ResourceSlotName
    quantity: Decimal


@dataclass(frozen=True)
class EnvironRow:
    """A row of kernel_group_environ."""

    role: KernelGroupRole
    key: EnvironKey
    value: str

    def __repr__(self) -> str:
        return f"EnvironRow({self.role!r}, {self.key!r}, {len(self.value)} characters)"


@dataclass(frozen=True)
class SessionRows:
    """The rows of a session's groups; a role stands for the id that the database gives its group."""

    groups: tuple[GroupRow, ...]
    slots: tuple[SlotRow, ...]
    environ: tuple[EnvironRow, ...]


def session_rows(spec: SessionSpec, images: Mapping[ImageName, ResolvedImage]) -> SessionRows:
    """Make the rows of a session's groups; slots of which nothing is asked for get none."""
    groups = []
    for group in spec.groups:
        image = images.get(ImageName(group.image, group.architecture))
        groups.append(
            GroupRow(
                group.role,
                image and image.id,
                group.shmem,
                group.startup_command,
                group.preopen_ports,
                spec.requested_starts_at,
                spec.batch_timeout_sec,
            )
        )
    slots = [
        SlotRow(group.role, name, quantity)
        for group in spec.groups
        for name, quantity in group.resource_slots.items()
        if quantity
    ]
    environ = [EnvironRow(group.role, key, value) for group in spec.groups for key, value in group.environ.items()]
    return SessionRows(tuple(groups), tuple(slots), tuple(environ))
