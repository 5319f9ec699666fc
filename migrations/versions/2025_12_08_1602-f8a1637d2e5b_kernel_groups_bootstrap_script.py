"""Add kernel_groups.bootstrap_script_revision_id, its foreign key not yet validated.

What: a nullable column without a default, and its foreign key to bootstrap_script_revisions NOT VALID.
Why: a group says which script its kernels run; NULL stands for none.
Locks on existing tables: ACCESS EXCLUSIVE on kernel_groups and SHARE ROW EXCLUSIVE on bootstrap_script_revisions, for
one statement that neither rewrites nor scans.
Old code on the new schema: works; it leaves the column NULL.
Downgrade loses: which group runs which script; ACCESS EXCLUSIVE on both tables for an instant.

Revision ID: f8a1637d2e5b
Revises: c05e9b4a7f16
Create Date: 2025-12-08 16:02:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "f8a1637d2e5b"
down_revision = "c05e9b4a7f16"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # One statement: nothing else runs while kernel_groups is locked.
    op.execute(
        """
ALTER TABLE kernel_groups
    ADD COLUMN bootstrap_script_revision_id uuid,
    ADD CONSTRAINT fk_kernel_groups_bootstrap_script
        FOREIGN KEY (bootstrap_script_revision_id) REFERENCES bootstrap_script_revisions (id)
        ON DELETE RESTRICT NOT VALID
"""
    )


def downgrade() -> None:
    op.drop_column("kernel_groups", "bootstrap_script_revision_id")
