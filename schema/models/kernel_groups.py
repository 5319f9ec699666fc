"""Kernel groups: per session role, the execution spec that the role's kernels share."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Integer, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from schema.environ import environ_key_check
from schema.identity import (
    BootstrapScriptRevisionID,
    EnvironKey,
    ImageID,
    KernelGroupID,
    KernelGroupResourceSlotID,
    KernelGroupRole,
    ResourceSlotName,
    SessionID,
)
from schema.models.base import Base
from schema.models.columns import GUID, NaturalKeyColumn, RecordedAt, SlotQuantity, Timestamp, id_default


class KernelGroup(Base):
    """The spec of one role of a session. It outlives its kernels: both they and its slots block its deletion."""

    __tablename__ = "kernel_groups"
    __table_args__ = (
        UniqueConstraint("session_id", "role"),
        CheckConstraint("shmem >= 0", name="shmem_not_negative"),
    )

    id: Mapped[KernelGroupID] = mapped_column(GUID(KernelGroupID), primary_key=True, server_default=id_default())
    session_id: Mapped[SessionID] = mapped_column(GUID(SessionID), ForeignKey("sessions.id", ondelete="RESTRICT"))
    role: Mapped[KernelGroupRole] = mapped_column(NaturalKeyColumn(KernelGroupRole))
    image_id: Mapped[ImageID | None] = mapped_column(
        GUID(ImageID), ForeignKey("images.id", ondelete="SET NULL"), index=True
    )
    shmem: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes; a carve-out of the requested mem, not a slot of its own."""
    startup_command: Mapped[str | None] = mapped_column(Text)
    preopen_ports: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default=text("'{}'"))
    requested_starts_at: Mapped[datetime | None] = mapped_column(Timestamp)
    batch_timeout_sec: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[RecordedAt]
    updated_at: Mapped[RecordedAt]
    bootstrap_script_revision_id: Mapped[BootstrapScriptRevisionID | None] = mapped_column(
        GUID(BootstrapScriptRevisionID),
        # The convention's name would be 69 bytes, and PostgreSQL keeps 63.
        ForeignKey("bootstrap_script_revisions.id", ondelete="RESTRICT", name="fk_kernel_groups_bootstrap_script"),
        index=True,
    )


class KernelGroupResourceSlot(Base):
    """What each kernel of the group asks for of one slot; not a sum over replicas."""

    __tablename__ = "kernel_group_resource_slots"
    __table_args__ = (
        UniqueConstraint("kernel_group_id", "slot_name"),
        CheckConstraint("quantity >= 0 AND quantity <> 'NaN'", name="quantity_not_negative"),
    )

    id: Mapped[KernelGroupResourceSlotID] = mapped_column(
        GUID(KernelGroupResourceSlotID), primary_key=True, server_default=id_default()
    )
    kernel_group_id: Mapped[KernelGroupID] = mapped_column(
        GUID(KernelGroupID), ForeignKey("kernel_groups.id", ondelete="RESTRICT")
    )
    slot_name: Mapped[ResourceSlotName] = mapped_column(
        NaturalKeyColumn(ResourceSlotName), ForeignKey("resource_slot_types.slot_name")
    )
    quantity: Mapped[Decimal] = mapped_column(SlotQuantity)


class KernelGroupEnviron(Base):
    """One environment variable that the group's kernels start with. Goes with its group."""

    __tablename__ = "kernel_group_environ"
    __table_args__ = (CheckConstraint(environ_key_check("key"), name="key_format"),)

    kernel_group_id: Mapped[KernelGroupID] = mapped_column(
        GUID(KernelGroupID), ForeignKey("kernel_groups.id", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[EnvironKey] = mapped_column(NaturalKeyColumn(EnvironKey), primary_key=True)
    value: Mapped[str] = mapped_column(Text)
    """May be a secret: never shown unless asked for."""


class BootstrapScriptRevision(Base):
    """A script that kernels run before their start-up command; immutable, shared by every group that uses it."""

    __tablename__ = "bootstrap_script_revisions"

    id: Mapped[BootstrapScriptRevisionID] = mapped_column(
        GUID(BootstrapScriptRevisionID), primary_key=True, server_default=id_default()
    )
    digest: Mapped[str] = mapped_column(Text, unique=True)
    """SHA-256 of the script's UTF-8 bytes, in lower-case hexadecimal."""
    script: Mapped[str] = mapped_column(Text)
    created_at: Mapped[RecordedAt]


class SystemSessionEnviron(Base):
    """One environment variable that the operator gives every session."""

    __tablename__ = "system_session_environ"
    __table_args__ = (CheckConstraint(environ_key_check("key"), name="key_format"),)

    key: Mapped[EnvironKey] = mapped_column(NaturalKeyColumn(EnvironKey), primary_key=True)
    value: Mapped[str] = mapped_column(Text)
    """May be a secret: never shown unless asked for."""
    created_at: Mapped[RecordedAt]
    updated_at: Mapped[RecordedAt]
