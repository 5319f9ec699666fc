"""Create system_session_environ.

What: a table of the environment variables that the operator gives every session; the key's format is a CHECK.
Why: they were in a configuration file of each manager, which drifted apart.
Locks on existing tables: none.
Old code on the new schema: works; it doesn't know the table.
Downgrade loses: every variable in the table.

Revision ID: 3b8e1d6c9a47
Revises: d4a27f90b6e1
Create Date: 2025-11-17 11:02:00.000000
"""

import sqlalchemy as sa
from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "3b8e1d6c9a47"
down_revision = "d4a27f90b6e1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "system_session_environ",
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("key ~ '^[A-Za-z_][A-Za-z0-9_]*$'", name=op.f("ck_system_session_environ_key_format")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_system_session_environ")),
    )


def downgrade() -> None:
    op.drop_table("system_session_environ")
