"""Model serving: endpoints and the sessions that traffic is routed to."""

from decimal import Decimal

from sqlalchemy import ForeignKey, Integer, Numeric, String, text
from sqlalchemy.orm import Mapped, mapped_column

from schema.identity import EndpointID, GroupID, RoutingID, SessionID, UserID
from schema.models.base import Base
from schema.models.columns import GUID, RecordedAt, id_default


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
