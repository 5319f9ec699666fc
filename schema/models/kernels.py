"""Kernels and the resources allocated to them."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from schema.identity import (
    GroupID,
    ImageID,
    KernelGroupID,
    KernelID,
    ResourceAllocationID,
    ResourceSlotName,
    SessionID,
    UserID,
)
from schema.models.base import Base
from schema.models.columns import GUID, CreatedAt, NaturalKeyColumn, SlotQuantity, Timestamp, id_default


class Kernel(Base):
    """A container of a session. Rows of old releases have NULL in what their release did not record."""

    __tablename__ = "kernels"
    __table_args__ = (
        Index("ix_kernels_session_id_cluster_role", "session_id", "cluster_role"),
        Index("ix_kernels_status_cluster_role", "status", "cluster_role"),
        # Retention sweeps read kernels by their last change.
        Index("ix_kernels_updated_order", text("greatest(created_at, terminated_at, status_changed)")),
        Index("ix_kernels_running_scaling_group", "scaling_group", postgresql_where=text("status = 'RUNNING'")),
        Index("ix_kernels_terminated_scaling_group", "scaling_group", postgresql_where=text("status = 'TERMINATED'")),
    )

    id: Mapped[KernelID] = mapped_column(GUID(KernelID), primary_key=True, server_default=id_default())
    session_id: Mapped[SessionID] = mapped_column(GUID(SessionID), ForeignKey("sessions.id"), index=True)
    session_name: Mapped[str | None] = mapped_column(String(64))
    session_type: Mapped[str] = mapped_column(String(64), server_default=text("'interactive'"))
    cluster_mode: Mapped[str] = mapped_column(String(16), server_default=text("'single-node'"))
    cluster_size: Mapped[int] = mapped_column(Integer, server_default=text("1"))
    cluster_role: Mapped[str] = mapped_column(String(16), server_default=text("'main'"))
    """The role whose kernel group it belongs to."""
    cluster_idx: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    local_rank: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    cluster_hostname: Mapped[str | None] = mapped_column(String(64))
    scaling_group: Mapped[str | None] = mapped_column(String(64))
    agent: Mapped[str | None] = mapped_column(ForeignKey("agents.id"))
    domain_name: Mapped[str | None] = mapped_column(String(64))
    group_id: Mapped[GroupID | None] = mapped_column(GUID(GroupID))
    user_uuid: Mapped[UserID | None] = mapped_column(GUID(UserID))
    access_key: Mapped[str | None] = mapped_column(String(20))
    image: Mapped[str | None] = mapped_column(String(512))
    """Canonical name at the time; the image itself may be gone or rebuilt."""
    image_id: Mapped[ImageID | None] = mapped_column(
        GUID(ImageID), ForeignKey("images.id", ondelete="SET NULL"), index=True
    )
    architecture: Mapped[str | None] = mapped_column(String(32))
    registry_name: Mapped[str | None] = mapped_column("registry", String(512))
    tag: Mapped[str | None] = mapped_column(String(64))
    container_id: Mapped[str | None] = mapped_column(String(64))
    environ: Mapped[list[str | None] | None] = mapped_column(ARRAY(String))
    """Entries are `KEY=VALUE`."""
    resource_opts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    preopen_ports: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))
    startup_command: Mapped[str | None] = mapped_column(Text)
    bootstrap_script: Mapped[str | None] = mapped_column(String(16384))
    starts_at: Mapped[datetime | None] = mapped_column(Timestamp)
    """Overwritten when the kernel starts; never what was asked for."""
    terminated_at: Mapped[datetime | None] = mapped_column(Timestamp, index=True)
    status: Mapped[str] = mapped_column(String(64), server_default=text("'PENDING'"))
    status_changed: Mapped[datetime | None] = mapped_column(Timestamp)
    created_at: Mapped[CreatedAt] = mapped_column(index=True)
    result: Mapped[str] = mapped_column(String(16), server_default=text("'undefined'"))
    last_stat: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    kernel_group_id: Mapped[KernelGroupID | None] = mapped_column(
        GUID(KernelGroupID), ForeignKey("kernel_groups.id", ondelete="RESTRICT"), index=True
    )
    """NULL in kernels of older releases until the backfill has linked them."""


class ResourceAllocation(Base):
    """What a kernel asked for of one slot, and what it uses: the only stored request per kernel."""

    __tablename__ = "resource_allocations"

    kernel_id: Mapped[KernelID] = mapped_column(
        GUID(KernelID), ForeignKey("kernels.id", ondelete="CASCADE"), primary_key=True
    )
    slot_name: Mapped[ResourceSlotName] = mapped_column(
        NaturalKeyColumn(ResourceSlotName), ForeignKey("resource_slot_types.slot_name"), primary_key=True
    )
    id: Mapped[ResourceAllocationID] = mapped_column(
        GUID(ResourceAllocationID), unique=True, server_default=id_default()
    )
    requested: Mapped[Decimal] = mapped_column(SlotQuantity)
    used: Mapped[Decimal | None] = mapped_column(SlotQuantity)
    free_at: Mapped[datetime | None] = mapped_column(Timestamp)
