"""What the cluster is made of: scaling groups, agents, images, slot types and storage volumes."""

from datetime import datetime
from typing import Final

from sqlalchemy import CheckConstraint, ForeignKey, Integer, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from schema.identity import ImageID, ResourceSlotName, ScalingGroupID, StorageVolumeID
from schema.models.base import Base
from schema.models.columns import GUID, NaturalKeyColumn, Timestamp, id_default

STORAGE_VOLUME_NAME_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Format of a storage volume's name: it becomes a path component and a part of `volume@host`."""


class ScalingGroup(Base):
    """A pool of agents that sessions are scheduled to."""

    __tablename__ = "scaling_groups"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    id: Mapped[ScalingGroupID] = mapped_column(GUID(ScalingGroupID), unique=True, server_default=id_default())


class Agent(Base):
    """A machine that runs kernels."""

    __tablename__ = "agents"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    status: Mapped[str] = mapped_column(String(16), server_default=text("'ALIVE'"))
    scaling_group: Mapped[str] = mapped_column(ForeignKey("scaling_groups.name"), index=True)
    architecture: Mapped[str] = mapped_column(String(32), server_default=text("'x86_64'"))
    addr: Mapped[str | None] = mapped_column(String(128))


class Image(Base):
    """A container image for one architecture. Its canonical name is `registry/project/name:tag`."""

    __tablename__ = "images"
    __table_args__ = (UniqueConstraint("registry", "project", "name", "tag", "architecture"),)

    id: Mapped[ImageID] = mapped_column(GUID(ImageID), primary_key=True, server_default=id_default())
    name: Mapped[str] = mapped_column(String(255))
    project: Mapped[str] = mapped_column(String(255))
    registry_name: Mapped[str] = mapped_column("registry", String(255))
    tag: Mapped[str] = mapped_column(String(255))
    architecture: Mapped[str] = mapped_column(String(32), server_default=text("'x86_64'"))


class ResourceSlotType(Base):
    """A kind of resource that can be asked for."""

    __tablename__ = "resource_slot_types"

    slot_name: Mapped[ResourceSlotName] = mapped_column(NaturalKeyColumn(ResourceSlotName), primary_key=True)
    slot_type: Mapped[str] = mapped_column(String(16))
    display_name: Mapped[str | None] = mapped_column(String(64))
    rank: Mapped[int] = mapped_column(Integer, server_default=text("0"))


class StorageVolume(Base):
    """A volume of a storage host."""

    __tablename__ = "storage_volumes"
    __table_args__ = (CheckConstraint(f"name ~ '{STORAGE_VOLUME_NAME_PATTERN}'", name="name_format"),)

    id: Mapped[StorageVolumeID] = mapped_column(GUID(StorageVolumeID), primary_key=True, server_default=id_default())
    name: Mapped[str] = mapped_column(String(64))
    host: Mapped[str] = mapped_column(String(128))
    backend: Mapped[str] = mapped_column(String(32))
    deleted_at: Mapped[datetime | None] = mapped_column(Timestamp)
