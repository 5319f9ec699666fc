"""Create the backfill's ledger.

What: backfill_runs, backfill_chunks and backfill_rejects.
Why: a backfill of a live cluster is stopped and goes on, and says what it could not carry over.
Locks on existing tables: none; the tables refer to each other only.
Old code on the new schema: works; it doesn't know the tables.
Downgrade loses: how far every backfill has come, and its rejects. A backfill then starts from the beginning, which is
safe: it leaves alone what is done.

Revision ID: 27d8f5b0a9e3
Revises: b6f3d2791ce8
Create Date: 2025-12-04 13:30:00.000000
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

# Part of: NEXT_RELEASE_VERSION
revision = "27d8f5b0a9e3"
down_revision = "b6f3d2791ce8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "backfill_runs",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), server_default=sa.text("'running'"), nullable=False),
        sa.Column("desired_state", sa.String(length=16), server_default=sa.text("'running'"), nullable=False),
        sa.Column("settings", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("snapshot_mark", sa.Text(), nullable=True),
        sa.Column("totals", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backfill_runs")),
    )
    op.create_index(
        "uq_backfill_runs_job_active",
        "backfill_runs",
        ["job"],
        unique=True,
        postgresql_where=sa.text("state IN ('running', 'paused')"),
    )
    op.create_table(
        "backfill_chunks",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lower", sa.Text(), nullable=True),
        sa.Column("upper", sa.Text(), nullable=True),
        sa.Column("cursor", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=16), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("fence", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_sqlstate", sa.String(length=5), nullable=True),
        sa.Column("totals", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["backfill_runs.id"], name=op.f("fk_backfill_chunks_run_id_backfill_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_backfill_chunks")),
    )
    op.create_table(
        "backfill_rejects",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("kernel_id", sa.Uuid(), nullable=True),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["backfill_runs.id"], name=op.f("fk_backfill_rejects_run_id_backfill_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backfill_rejects")),
    )
    op.create_index("ix_backfill_rejects_run_id_session_id", "backfill_rejects", ["run_id", "session_id"])


def downgrade() -> None:
    op.drop_table("backfill_rejects")
    op.drop_table("backfill_chunks")
    op.drop_table("backfill_runs")
