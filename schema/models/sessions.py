"""Sessions and what they depend on."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from schema.identity import GroupID, SessionID, UserID
from schema.models.base import Base
from schema.models.columns import GUID, CreatedAt, Timestamp, id_default
from schema.models.status import TERMINAL_SESSION_STATUSES

_TERMINAL = ", ".join(f"'{status}'" for status in TERMINAL_SESSION_STATUSES)


class Session(Base):
    """A user's session: one or more kernels that live and end together."""

    __tablename__ = "sessions"
    __table_args__ = (
        # A name is free again when its session has ended.
        Index(
            "uq_sessions_name_user_uuid_live",
            "name",
            "user_uuid",
            unique=True,
            postgresql_where=text(f"status NOT IN ({_TERMINAL})"),
        ),
    )

    id: Mapped[SessionID] = mapped_column(GUID(SessionID), primary_key=True, server_default=id_default())
    name: Mapped[str | None] = mapped_column(String(64))
    session_type: Mapped[str] = mapped_column(String(64), server_default=text("'interactive'"))
    status: Mapped[str] = mapped_column(String(64), server_default=text("'PENDING'"))
    status_info: Mapped[str | None] = mapped_column(Text)
    cluster_mode: Mapped[str] = mapped_column(String(16), server_default=text("'single-node'"))
    cluster_size: Mapped[int] = mapped_column(Integer, server_default=text("1"))
    priority: Mapped[int] = mapped_column(Integer, server_default=text("10"))
    domain_name: Mapped[str | None] = mapped_column(ForeignKey("domains.name"))
    group_id: Mapped[GroupID | None] = mapped_column(GUID(GroupID), ForeignKey("groups.id"))
    user_uuid: Mapped[UserID | None] = mapped_column(GUID(UserID))
    access_key: Mapped[str | None] = mapped_column(String(20))
    scaling_group_name: Mapped[str | None] = mapped_column(ForeignKey("scaling_groups.name"))
    environ: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """What was asked for and what launching added; in some releases empty."""
    options: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("""'{"kernel_groups": []}'::jsonb"""))
    """May hold the kernel groups as requested, under `kernel_groups`, in a nested or an older flat shape."""
    bootstrap_script: Mapped[str | None] = mapped_column(String(16384))
    startup_command: Mapped[str | None] = mapped_column(Text)
    requested_starts_at: Mapped[datetime | None] = mapped_column(Timestamp)
    starts_at: Mapped[datetime | None] = mapped_column(Timestamp)
    """Overwritten when the session starts; never what was asked for."""
    batch_timeout: Mapped[int | None] = mapped_column(BigInteger)
    """Seconds."""
    terminated_at: Mapped[datetime | None] = mapped_column(Timestamp)
    created_at: Mapped[CreatedAt]
    result: Mapped[str] = mapped_column(String(16), server_default=text("'undefined'"))


class SessionDependency(Base):
    """`session_id` waits for `depends_on` to end well."""

    __tablename__ = "session_dependencies"

    session_id: Mapped[SessionID] = mapped_column(
        GUID(SessionID), ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True
    )
    depends_on: Mapped[SessionID] = mapped_column(
        GUID(SessionID), ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True, index=True
    )
