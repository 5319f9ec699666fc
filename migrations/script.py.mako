"""${message}

What: ...
Why: ...
Locks on existing tables: ...
Old code on the new schema: ...
Downgrade loses: ...

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
Create Date: ${create_date}
"""

# Rules for authors; delete them when the revision keeps them.
# - A DBA reads the docstring before production does: fill in every section, one for each transaction if they differ.
# - Import the standard library, sqlalchemy and alembic only, and write every name and pattern out: history is frozen.
# - Name every constraint in full, through op.f(): the convention of the models would give a CHECK its prefix twice.
# - One busy table per transaction, the strongest lock last, and nothing after it.
# - Foreign keys and CHECKs on existing tables: NOT VALID first, VALIDATE in a later transaction.
# - Indexes on existing tables: CONCURRENTLY, in an autocommit_block, with DROP INDEX CONCURRENTLY IF EXISTS before it
#   (IF NOT EXISTS takes an INVALID leftover for done). An autocommit_block must be safe to run again.
# - Timeouts: SET LOCAL in a transaction, SET and RESET in an autocommit_block. A SET alone leaks into later revisions.
# - Data is the backfill's work: a revision only verifies that nothing is left to do.
# - One that has to ask the database says `needs_connection = True` beside `revision`: it has no offline script.
# - The downgrade is real, or raises with the reason and the forward fix. Only a merge may pass.
# - tests/revisions/test_<revision>.py: seed, upgrade, assert, downgrade, assert.

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

# Part of: NEXT_RELEASE_VERSION
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}
<%
merge = isinstance(down_revision, (tuple, list))
missing = "pass" if merge else 'raise NotImplementedError("write it, or say why there is none and what the forward fix is")'
%>

def upgrade() -> None:
    ${upgrades if upgrades else missing}


def downgrade() -> None:
    ${downgrades if downgrades else missing}
