"""Index kernel_groups.bootstrap_script_revision_id.

What: an index on kernel_groups.bootstrap_script_revision_id.
Why: the foreign key looks a script's groups up when the script is deleted.
Locks on existing tables: SHARE UPDATE EXCLUSIVE on kernel_groups while it is built; reads and writes go on.
Old code on the new schema: works.
Downgrade loses: the index. No data.
Run again after a failure: safe; the index is dropped first and built anew.

Revision ID: a3e7f1c6d840
Revises: 0d9b5c7e83f2
Create Date: 2025-12-08 16:12:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "a3e7f1c6d840"
down_revision = "0d9b5c7e83f2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        # CONCURRENTLY waits for the transactions that may see the old state, however long those last, and blocks
        # no reader or writer meanwhile: neither timeout may end it. RESET goes back to the connection's own values.
        op.execute("SET lock_timeout = 0")
        op.execute("SET statement_timeout = 0")
        # An attempt that broke off leaves an INVALID index, which IF NOT EXISTS would take for done.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernel_groups_bootstrap_script_revision_id")
        op.execute(
            "CREATE INDEX CONCURRENTLY ix_kernel_groups_bootstrap_script_revision_id "
            "ON kernel_groups (bootstrap_script_revision_id)"
        )
        op.execute("RESET statement_timeout")
        op.execute("RESET lock_timeout")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernel_groups_bootstrap_script_revision_id")
        op.execute("RESET lock_timeout")
