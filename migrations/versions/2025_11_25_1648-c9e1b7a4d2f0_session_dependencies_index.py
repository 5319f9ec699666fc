"""Index session_dependencies by what is depended on.

What: an index on session_dependencies.depends_on.
Why: ending a session looks for those that wait for it, and deleting one makes the foreign key look as well.
Locks on existing tables: SHARE UPDATE EXCLUSIVE on session_dependencies while it is built; reads and writes go on.
Old code on the new schema: works.
Downgrade loses: the index. No data.
Run again after a failure: safe; the index is dropped first and built anew.

Revision ID: c9e1b7a4d2f0
Revises: 3b8e1d6c9a47
Create Date: 2025-11-25 16:48:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "c9e1b7a4d2f0"
down_revision = "3b8e1d6c9a47"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.get_context().autocommit_block():
        # CONCURRENTLY waits for the transactions that may see the old state, however long those last, and blocks
        # no reader or writer meanwhile: neither timeout may end it. RESET goes back to the connection's own values.
        op.execute("SET lock_timeout = 0")
        op.execute("SET statement_timeout = 0")
        # An attempt that broke off leaves an INVALID index, which IF NOT EXISTS would take for done.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_session_dependencies_depends_on")
        op.execute("CREATE INDEX CONCURRENTLY ix_session_dependencies_depends_on ON session_dependencies (depends_on)")
        op.execute("RESET statement_timeout")
        op.execute("RESET lock_timeout")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_session_dependencies_depends_on")
        op.execute("RESET lock_timeout")
