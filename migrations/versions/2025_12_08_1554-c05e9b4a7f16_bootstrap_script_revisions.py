"""Create bootstrap_script_revisions.

What: a table of bootstrap scripts, each stored once under its digest and never changed.
Why: scripts of up to 16 KiB are repeated in sessions and kernels; most clusters use a handful.
Locks on existing tables: none.
Old code on the new schema: works; it doesn't know the table.
Downgrade loses: every script in the table.

Revision ID: c05e9b4a7f16
Revises: 27d8f5b0a9e3
Create Date: 2025-12-08 15:54:00.000000
"""

import sqlalchemy as sa
from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "c05e9b4a7f16"
down_revision = "27d8f5b0a9e3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bootstrap_script_revisions",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("script", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bootstrap_script_revisions")),
        sa.UniqueConstraint("digest", name=op.f("uq_bootstrap_script_revisions_digest")),
    )


def downgrade() -> None:
    op.drop_table("bootstrap_script_revisions")
