"""Create the kernel group tables.

What: kernel_groups, kernel_group_resource_slots and kernel_group_environ: one row per role of a session, with the
execution spec that the role's kernels share.
Why: the spec is repeated in every kernel and, in three shapes, in the session's options; nothing holds them equal.
Locks on existing tables: SHARE ROW EXCLUSIVE on resource_slot_types, images and sessions, which stops their writers
(not their readers, nor rows that only refer to them) until the transaction ends. The new tables are empty, so nothing
is scanned, and sessions, the busiest, is taken last, for one statement.
Old code on the new schema: works, but for deleting a session that has groups: they have to go first.
Downgrade loses: every kernel group with its slots and environment; ACCESS EXCLUSIVE on the three tables above for an
instant, since dropping a foreign key drops its triggers there.

Revision ID: 1a6d9e3f5c28
Revises: e7f4c2a98b10
Create Date: 2025-12-01 08:45:00.000000
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

# Part of: NEXT_RELEASE_VERSION
revision = "1a6d9e3f5c28"
down_revision = "e7f4c2a98b10"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kernel_groups",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("role", sa.String(length=64), nullable=False),
        sa.Column("image_id", sa.Uuid(), nullable=True),
        sa.Column("shmem", sa.BigInteger(), nullable=True),
        sa.Column("startup_command", sa.Text(), nullable=True),
        sa.Column("preopen_ports", postgresql.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("requested_starts_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("batch_timeout_sec", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("shmem >= 0", name=op.f("ck_kernel_groups_shmem_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernel_groups")),
        sa.UniqueConstraint("session_id", "role", name=op.f("uq_kernel_groups_session_id")),
    )
    op.create_index(op.f("ix_kernel_groups_image_id"), "kernel_groups", ["image_id"])
    op.create_table(
        "kernel_group_resource_slots",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("kernel_group_id", sa.Uuid(), nullable=False),
        sa.Column("slot_name", sa.String(length=64), nullable=False),
        sa.Column("quantity", sa.Numeric(precision=24, scale=6), nullable=False),
        sa.CheckConstraint(
            "quantity >= 0 AND quantity <> 'NaN'", name=op.f("ck_kernel_group_resource_slots_quantity_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["kernel_group_id"],
            ["kernel_groups.id"],
            name=op.f("fk_kernel_group_resource_slots_kernel_group_id_kernel_groups"),
            ondelete="RESTRICT",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernel_group_resource_slots")),
        sa.UniqueConstraint(
            "kernel_group_id", "slot_name", name=op.f("uq_kernel_group_resource_slots_kernel_group_id")
        ),
    )
    op.create_table(
        "kernel_group_environ",
        sa.Column("kernel_group_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.CheckConstraint("key ~ '^[A-Za-z_][A-Za-z0-9_]*$'", name=op.f("ck_kernel_group_environ_key_format")),
        sa.ForeignKeyConstraint(
            ["kernel_group_id"],
            ["kernel_groups.id"],
            name=op.f("fk_kernel_group_environ_kernel_group_id_kernel_groups"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("kernel_group_id", "key", name=op.f("pk_kernel_group_environ")),
    )
    # Foreign keys inside CREATE TABLE would lock the tables they refer to from there on.
    op.create_foreign_key(
        op.f("fk_kernel_group_resource_slots_slot_name_resource_slot_types"),
        "kernel_group_resource_slots",
        "resource_slot_types",
        ["slot_name"],
        ["slot_name"],
    )
    op.create_foreign_key(
        op.f("fk_kernel_groups_image_id_images"), "kernel_groups", "images", ["image_id"], ["id"], ondelete="SET NULL"
    )
    op.create_foreign_key(
        op.f("fk_kernel_groups_session_id_sessions"),
        "kernel_groups",
        "sessions",
        ["session_id"],
        ["id"],
        ondelete="RESTRICT",
    )


def downgrade() -> None:
    op.drop_table("kernel_group_environ")
    op.drop_table("kernel_group_resource_slots")
    op.drop_table("kernel_groups")
