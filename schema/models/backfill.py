"""The backfill's ledger: runs, the key ranges they are cut into, and what could not be carried over."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Float, ForeignKey, Identity, Index, Integer, String, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from schema.identity import BackfillRunID, KernelID, SessionID
from schema.models.base import Base
from schema.models.columns import GUID, RecordedAt, Timestamp, id_default
from schema.models.status import ACTIVE_RUN_STATES

_ACTIVE = ", ".join(f"'{state}'" for state in ACTIVE_RUN_STATES)


class BackfillRun(Base):
    """One pass of a job over its parent table. At most one run per job is active."""

    __tablename__ = "backfill_runs"
    __table_args__ = (
        Index("uq_backfill_runs_job_active", "job", unique=True, postgresql_where=text(f"state IN ({_ACTIVE})")),
    )

    id: Mapped[BackfillRunID] = mapped_column(GUID(BackfillRunID), primary_key=True, server_default=id_default())
    job: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16), server_default=text("'running'"))
    desired_state: Mapped[str] = mapped_column(String(16), server_default=text("'running'"))
    """What the operator wants; workers look at it between batches."""
    settings: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'::jsonb"))
    snapshot_mark: Mapped[str | None] = mapped_column(Text)
    """`pg_current_snapshot()` at the start: writers older than it may still add rows that no batch has seen."""
    totals: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'::jsonb"))
    last_error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[RecordedAt]
    updated_at: Mapped[RecordedAt]
    finished_at: Mapped[datetime | None] = mapped_column(Timestamp)
    phase: Mapped[str] = mapped_column(String(16), server_default=text("'batches'"))
    """What the chunks are walked for: `batches`, then `sweep`, then `verify`."""


class BackfillChunk(Base):
    """A key range of a run, `lower` excluded and `upper` included, and how far into it the work has come."""

    __tablename__ = "backfill_chunks"

    run_id: Mapped[BackfillRunID] = mapped_column(
        GUID(BackfillRunID), ForeignKey("backfill_runs.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    lower: Mapped[str | None] = mapped_column(Text)
    """Text of the parent key; NULL stands for no bound."""
    upper: Mapped[str | None] = mapped_column(Text)
    cursor: Mapped[str | None] = mapped_column(Text)
    """Text of the last key done; NULL before the first batch."""
    state: Mapped[str] = mapped_column(String(16), server_default=text("'pending'"))
    owner: Mapped[str | None] = mapped_column(Text)
    """Host, process and connection that works on it."""
    fence: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    """Grows with every claim; a worker with an older number cannot commit."""
    lease_expires_at: Mapped[datetime | None] = mapped_column(Timestamp)
    attempts: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    last_sqlstate: Mapped[str | None] = mapped_column(String(5))
    totals: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'::jsonb"))
    updated_at: Mapped[RecordedAt]
    batch_size: Mapped[int | None] = mapped_column(Integer)
    """Of the last batch."""
    rate: Mapped[float | None] = mapped_column(Float)
    """Parent rows per second lately, rests included."""
    held: Mapped[str | None] = mapped_column(Text)
    """What keeps the worker from its next batch."""


class BackfillReject(Base):
    """A value that a run could not carry over. Rows refer to no session: they stay when it is purged."""

    __tablename__ = "backfill_rejects"
    __table_args__ = (
        Index("ix_backfill_rejects_run_id_session_id", "run_id", "session_id"),
        CheckConstraint("session_id IS NOT NULL OR parent_key IS NOT NULL", name="parent"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    run_id: Mapped[BackfillRunID] = mapped_column(
        GUID(BackfillRunID), ForeignKey("backfill_runs.id", ondelete="CASCADE")
    )
    session_id: Mapped[SessionID | None] = mapped_column(GUID(SessionID))
    kernel_id: Mapped[KernelID | None] = mapped_column(GUID(KernelID))
    field: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    raw: Mapped[str | None] = mapped_column(Text)
    """The value as it was; may be a secret, never shown unless asked for."""
    created_at: Mapped[RecordedAt]
    parent_key: Mapped[str | None] = mapped_column(Text)
    """Text of the key of a parent row that was set aside whole; then there is no session_id."""
