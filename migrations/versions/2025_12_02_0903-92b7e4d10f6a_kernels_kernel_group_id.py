"""Add kernels.kernel_group_id, its foreign key not yet validated.

What: a nullable column without a default, and its foreign key to kernel_groups NOT VALID.
Why: a kernel will say which group's spec it runs. Existing kernels keep NULL until the backfill has linked them.
Locks on existing tables: ACCESS EXCLUSIVE on kernels and SHARE ROW EXCLUSIVE on kernel_groups, for one statement that
neither rewrites nor scans.
Old code on the new schema: works; it leaves the column NULL.
Downgrade loses: which kernel belongs to which group; ACCESS EXCLUSIVE on both tables for an instant.

Revision ID: 92b7e4d10f6a
Revises: 1a6d9e3f5c28
Create Date: 2025-12-02 09:03:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "92b7e4d10f6a"
down_revision = "1a6d9e3f5c28"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # One statement: nothing else runs while kernels is locked.
    op.execute(
        """
ALTER TABLE kernels
    ADD COLUMN kernel_group_id uuid,
    ADD CONSTRAINT fk_kernels_kernel_group_id_kernel_groups
        FOREIGN KEY (kernel_group_id) REFERENCES kernel_groups (id) ON DELETE RESTRICT NOT VALID
"""
    )


def downgrade() -> None:
    op.drop_column("kernels", "kernel_group_id")
