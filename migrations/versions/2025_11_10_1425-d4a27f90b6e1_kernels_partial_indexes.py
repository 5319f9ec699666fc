"""Index the running, the terminated and the recently changed kernels.

What: two partial indexes of kernels by scaling group, and one on the time of a kernel's last change.
Why: the scheduler counts the running kernels of a scaling group, retention sweeps read the oldest changes first.
Locks on existing tables: SHARE UPDATE EXCLUSIVE on kernels while each index is built; reads and writes go on.
Old code on the new schema: works.
Downgrade loses: the indexes. No data.
Run again after a failure: safe; each index is dropped first and built anew.

Revision ID: d4a27f90b6e1
Revises: 8c1f0a5e2d73
Create Date: 2025-11-10 14:25:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "d4a27f90b6e1"
down_revision = "8c1f0a5e2d73"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        # CONCURRENTLY waits for the transactions that may see the old state, however long those last, and blocks
        # no reader or writer meanwhile: neither timeout may end it. RESET goes back to the connection's own values.
        op.execute("SET lock_timeout = 0")
        op.execute("SET statement_timeout = 0")
        # An attempt that broke off leaves an INVALID index, which IF NOT EXISTS would take for done.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_running_scaling_group")
        op.execute(
            "CREATE INDEX CONCURRENTLY ix_kernels_running_scaling_group "
            "ON kernels (scaling_group) WHERE status = 'RUNNING'"
        )
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_terminated_scaling_group")
        op.execute(
            "CREATE INDEX CONCURRENTLY ix_kernels_terminated_scaling_group "
            "ON kernels (scaling_group) WHERE status = 'TERMINATED'"
        )
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_updated_order")
        op.execute(
            "CREATE INDEX CONCURRENTLY ix_kernels_updated_order "
            "ON kernels (greatest(created_at, terminated_at, status_changed))"
        )
        op.execute("RESET statement_timeout")
        op.execute("RESET lock_timeout")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_updated_order")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_terminated_scaling_group")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_kernels_running_scaling_group")
        op.execute("RESET lock_timeout")
