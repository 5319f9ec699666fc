"""Validate the foreign key of kernels.kernel_group_id.

What: VALIDATE CONSTRAINT, in a revision and so in a transaction of its own.
Why: together with adding the key, the scan would run under the lock that adding takes.
Locks on existing tables: SHARE UPDATE EXCLUSIVE on kernels and ROW SHARE on kernel_groups while kernels is read; reads
and writes go on. Without a time limit.
Old code on the new schema: works.
Downgrade loses: nothing; the key becomes NOT VALID again, under ACCESS EXCLUSIVE on kernels and kernel_groups for an
instant.

Revision ID: 5e0c8a3b71d4
Revises: 92b7e4d10f6a
Create Date: 2025-12-02 09:11:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "5e0c8a3b71d4"
down_revision = "92b7e4d10f6a"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The scan may take as long as it takes: it blocks no reader or writer.
    op.execute("SET LOCAL statement_timeout = 0")
    op.execute("ALTER TABLE kernels VALIDATE CONSTRAINT fk_kernels_kernel_group_id_kernel_groups")


def downgrade() -> None:
    # There is no way back from validated but to make it anew.
    op.execute(
        """
ALTER TABLE kernels
    DROP CONSTRAINT fk_kernels_kernel_group_id_kernel_groups,
    ADD CONSTRAINT fk_kernels_kernel_group_id_kernel_groups
        FOREIGN KEY (kernel_group_id) REFERENCES kernel_groups (id)
        ON DELETE RESTRICT NOT VALID
"""
    )
