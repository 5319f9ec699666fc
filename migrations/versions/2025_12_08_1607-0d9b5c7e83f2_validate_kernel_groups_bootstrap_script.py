"""Validate the foreign key of kernel_groups.bootstrap_script_revision_id.

What: VALIDATE CONSTRAINT, in a revision and so in a transaction of its own.
Why: together with adding the key, the scan would run under the lock that adding takes.
Locks on existing tables: SHARE UPDATE EXCLUSIVE on kernel_groups and ROW SHARE on bootstrap_script_revisions while
kernel_groups is read; reads and writes go on. Without a time limit.
Old code on the new schema: works.
Downgrade loses: nothing; the key becomes NOT VALID again, under ACCESS EXCLUSIVE on kernel_groups and
bootstrap_script_revisions for an instant.

Revision ID: 0d9b5c7e83f2
Revises: f8a1637d2e5b
Create Date: 2025-12-08 16:07:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "0d9b5c7e83f2"
down_revision = "f8a1637d2e5b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The scan may take as long as it takes: it blocks no reader or writer.
    op.execute("SET LOCAL statement_timeout = 0")
    op.execute("ALTER TABLE kernel_groups VALIDATE CONSTRAINT fk_kernel_groups_bootstrap_script")


def downgrade() -> None:
    # There is no way back from validated but to make it anew.
    op.execute(
        """
ALTER TABLE kernel_groups
    DROP CONSTRAINT fk_kernel_groups_bootstrap_script,
    ADD CONSTRAINT fk_kernel_groups_bootstrap_script
        FOREIGN KEY (bootstrap_script_revision_id) REFERENCES bootstrap_script_revisions (id)
        ON DELETE RESTRICT NOT VALID
"""
    )
