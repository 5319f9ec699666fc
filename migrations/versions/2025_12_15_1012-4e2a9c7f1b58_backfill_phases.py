"""Backfill ledger: phases, what workers do, rows set aside.

What: backfill_runs.phase; backfill_chunks.batch_size, rate and held; backfill_rejects.parent_key, with session_id
nullable, as one of the two says which row it is about.
Why: a run ends with a sweep and a verification, which any host may go on with; what a worker does and what holds it
is seen from any host; a row that fails on its own is set aside whatever table it is of.
Locks on existing tables: ACCESS EXCLUSIVE on the three tables of the ledger, for an instant; the check reads
backfill_rejects once under it. No table of the cluster is touched.
Old code on the new schema: works, between runs. Finish the active run first: an older program would end it unswept.
Downgrade loses: the phase of an active run, which then ends without sweep and verification, and the rejects that name
their row by parent_key.

Revision ID: 4e2a9c7f1b58
Revises: 4b7d2f9a0c63
Create Date: 2025-12-15 10:12:00.000000
"""

import sqlalchemy as sa
from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "4e2a9c7f1b58"
down_revision = "4b7d2f9a0c63"
branch_labels = None
depends_on = None


# schemactl: accept held-lock -- the ledger's tables are small, and nothing but a backfill reads them
# schemactl: accept check-validated -- rejects are few, and nothing but a backfill waits while they are read
# schemactl: accept behaviour-changed -- only the backfill reads rejects, and it knows both ways of naming a row


def upgrade() -> None:
    op.add_column(
        "backfill_runs", sa.Column("phase", sa.String(length=16), server_default=sa.text("'batches'"), nullable=False)
    )
    op.add_column("backfill_chunks", sa.Column("batch_size", sa.Integer(), nullable=True))
    op.add_column("backfill_chunks", sa.Column("rate", sa.Float(), nullable=True))
    op.add_column("backfill_chunks", sa.Column("held", sa.Text(), nullable=True))
    op.add_column("backfill_rejects", sa.Column("parent_key", sa.Text(), nullable=True))
    op.alter_column("backfill_rejects", "session_id", nullable=True)
    op.create_check_constraint("parent", "backfill_rejects", "session_id IS NOT NULL OR parent_key IS NOT NULL")


def downgrade() -> None:
    op.execute("DELETE FROM backfill_rejects WHERE session_id IS NULL")
    op.drop_constraint(op.f("ck_backfill_rejects_parent"), "backfill_rejects")
    op.alter_column("backfill_rejects", "session_id", nullable=False)
    op.drop_column("backfill_rejects", "parent_key")
    op.drop_column("backfill_chunks", "held")
    op.drop_column("backfill_chunks", "rate")
    op.drop_column("backfill_chunks", "batch_size")
    op.drop_column("backfill_runs", "phase")
