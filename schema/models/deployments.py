"""Model serving: endpoints, the revisions of what they serve, and the sessions that traffic is routed to."""

from decimal import Decimal

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Integer,
    Numeric,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from schema.environ import environ_key_check
from schema.identity import (
    BootstrapScriptRevisionID,
    DeploymentRevisionID,
    EndpointID,
    EnvironKey,
    GroupID,
    ImageID,
    ResourceSlotName,
    RoutingID,
    SessionID,
    UserID,
)
from schema.models.base import Base
from schema.models.columns import GUID, NaturalKeyColumn, RecordedAt, SlotQuantity, id_default


class Endpoint(Base):
    """A served model: an address and how many sessions stand behind it."""

    __tablename__ = "endpoints"

    id: Mapped[EndpointID] = mapped_column(GUID(EndpointID), primary_key=True, server_default=id_default())
    name: Mapped[str] = mapped_column(String(512))
    domain_name: Mapped[str | None] = mapped_column(ForeignKey("domains.name"), index=True)
    group_id: Mapped[GroupID | None] = mapped_column(GUID(GroupID), ForeignKey("groups.id"), index=True)
    session_owner: Mapped[UserID | None] = mapped_column(GUID(UserID))
    scaling_group_name: Mapped[str | None] = mapped_column(ForeignKey("scaling_groups.name"), index=True)
    replicas: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    url: Mapped[str | None] = mapped_column(String(1024))
    lifecycle_stage: Mapped[str] = mapped_column(String(16), server_default=text("'created'"))
    created_at: Mapped[RecordedAt]


class DeploymentRevision(Base):
    """A complete spec of what an endpoint serves; never changed. Its sessions' kernel groups are made from it."""

    __tablename__ = "deployment_revisions"
    __table_args__ = (
        UniqueConstraint("endpoint_id", "revision_number"),
        CheckConstraint("shmem >= 0", name="shmem_not_negative"),
    )

    id: Mapped[DeploymentRevisionID] = mapped_column(
        GUID(DeploymentRevisionID), primary_key=True, server_default=id_default()
    )
    endpoint_id: Mapped[EndpointID] = mapped_column(GUID(EndpointID), ForeignKey("endpoints.id", ondelete="CASCADE"))
    revision_number: Mapped[int] = mapped_column(Integer)
    """Counts from 1 within an endpoint."""
    image_id: Mapped[ImageID | None] = mapped_column(
        GUID(ImageID), ForeignKey("images.id", ondelete="SET NULL"), index=True
    )
    image: Mapped[str] = mapped_column(String(512))
    """Canonical name as it was asked for; the image itself may be gone or rebuilt."""
    architecture: Mapped[str] = mapped_column(String(32))
    runtime_variant: Mapped[str] = mapped_column(String(32))
    shmem: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes; a carve-out of the requested mem."""
    startup_command: Mapped[str | None] = mapped_column(Text)
    bootstrap_script_revision_id: Mapped[BootstrapScriptRevisionID | None] = mapped_column(
        GUID(BootstrapScriptRevisionID),
        # The convention's name would be 76 bytes, and PostgreSQL keeps 63.
        ForeignKey(
            "bootstrap_script_revisions.id", ondelete="RESTRICT", name="fk_deployment_revisions_bootstrap_script"
        ),
        index=True,
    )
    preopen_ports: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default=text("'{}'"))
    cluster_mode: Mapped[str] = mapped_column(String(16), server_default=text("'single-node'"))
    cluster_size: Mapped[int] = mapped_column(Integer, server_default=text("1"))
    model_definition_path: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[RecordedAt]


class DeploymentRevisionResourceSlot(Base):
    """What each kernel of the revision's sessions asks for of one slot, zeros included. Goes with its revision."""

    __tablename__ = "deployment_revision_resource_slots"
    __table_args__ = (CheckConstraint("quantity >= 0 AND quantity <> 'NaN'", name="quantity_not_negative"),)

    revision_id: Mapped[DeploymentRevisionID] = mapped_column(
        GUID(DeploymentRevisionID),
        # Named here, like the next one: the convention's names would be over 63 bytes.
        ForeignKey(
            "deployment_revisions.id", ondelete="CASCADE", name="fk_deployment_revision_resource_slots_revision_id"
        ),
        primary_key=True,
    )
    slot_name: Mapped[ResourceSlotName] = mapped_column(
        NaturalKeyColumn(ResourceSlotName),
        ForeignKey("resource_slot_types.slot_name", name="fk_deployment_revision_resource_slots_slot_name"),
        primary_key=True,
    )
    quantity: Mapped[Decimal] = mapped_column(SlotQuantity)


class DeploymentRevisionEnviron(Base):
    """One environment variable of the revision. Goes with its revision."""

    __tablename__ = "deployment_revision_environ"
    __table_args__ = (CheckConstraint(environ_key_check("key"), name="key_format"),)

    revision_id: Mapped[DeploymentRevisionID] = mapped_column(
        GUID(DeploymentRevisionID), ForeignKey("deployment_revisions.id", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[EnvironKey] = mapped_column(NaturalKeyColumn(EnvironKey), primary_key=True)
    value: Mapped[str] = mapped_column(Text)
    """May be a secret: never shown unless asked for."""


class Routing(Base):
    """A session that takes a share of an endpoint's traffic."""

    __tablename__ = "routings"

    id: Mapped[RoutingID] = mapped_column(GUID(RoutingID), primary_key=True, server_default=id_default())
    endpoint_id: Mapped[EndpointID] = mapped_column(
        GUID(EndpointID), ForeignKey("endpoints.id", ondelete="CASCADE"), index=True
    )
    session_id: Mapped[SessionID | None] = mapped_column(
        GUID(SessionID), ForeignKey("sessions.id", ondelete="CASCADE"), index=True
    )
    status: Mapped[str] = mapped_column(String(16), server_default=text("'provisioning'"))
    traffic_ratio: Mapped[Decimal] = mapped_column(Numeric(6, 5), server_default=text("1"))
    created_at: Mapped[RecordedAt]
