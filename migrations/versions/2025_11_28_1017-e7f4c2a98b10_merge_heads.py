"""Merge the storage volume and the session dependency changes.

What: joins two heads into one; changes nothing.
Why: both landed on the same day, on the same parent.
Locks on existing tables: none.
Old code on the new schema: works.
Downgrade loses: nothing.

Revision ID: e7f4c2a98b10
Revises: 51d33226c0a5, c9e1b7a4d2f0
Create Date: 2025-11-28 10:17:00.000000
"""

# Part of: NEXT_RELEASE_VERSION
revision = "e7f4c2a98b10"
down_revision = ("51d33226c0a5", "c9e1b7a4d2f0")
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
