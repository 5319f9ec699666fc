"""Index kernels.kernel_group_id.

What: an index on kernels.kernel_group_id.
Why: a group's kernels are looked up by it, by people and by the foreign key when a group is deleted.
Locks on existing tables: SHARE UPDATE EXCLUSIVE on kernels while it is built; reads and writes go on.
Old code on the new schema: works.
Downgrade loses: the index. No data.
Run again after a failure: safe; the index is dropped first and built anew.

Revision ID: b6f3d2791ce8
Revises: 5e0c8a3b71d4
Create Date: 2025-12-02 09:20:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "b6f3d2791ce8"
down_revision = "5e0c8a3b71d4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        # CONCURRENTLY waits for the transactions that may see the old state, however long those last, and blocks
        # no reader or writer meanwhile: neither timeout may end it. RESET goes back to the connection's own values.
        op.execute("SET lock_timeout = 0")
        op.execute("SET statement_timeout = 0")
        # An attempt that broke off leaves an INVALID index, which IF NOT EXISTS would take for done.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_kernel_group_id")
        op.execute("CREATE INDEX CONCURRENTLY ix_kernels_kernel_group_id ON kernels (kernel_group_id)")
        op.execute("RESET statement_timeout")
        op.execute("RESET lock_timeout")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_kernel_group_id")
        op.execute("RESET lock_timeout")
