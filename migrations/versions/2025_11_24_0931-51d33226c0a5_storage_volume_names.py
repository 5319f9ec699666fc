"""Check the names of storage volumes.

What: a CHECK on storage_volumes.name: a letter or digit, then letters, digits, dots, dashes and underscores.
Why: the name becomes a path component and a part of `volume@host`, where a slash or an @ means something else.
Preflight: names the rows that break the rule and stops before any DDL. Rename those volumes, then run it again.
Locks on existing tables: ACCESS EXCLUSIVE on storage_volumes for an instant, to add the CHECK unvalidated; then, in a
transaction of its own, SHARE UPDATE EXCLUSIVE while the rows are read, during which reads and writes go on.
Old code on the new schema: works, but is refused when it makes or renames a volume against the rule.
Downgrade loses: the rule. No data; ACCESS EXCLUSIVE for an instant.
Run again after a failure: safe; the CHECK is dropped first and added anew.

Revision ID: 51d33226c0a5
Revises: 3b8e1d6c9a47
Create Date: 2025-11-24 09:31:00.000000
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = "51d33226c0a5"
down_revision = "3b8e1d6c9a47"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
DO $do$
DECLARE
    bad bigint;
    shown text;
BEGIN
    SELECT count(*), string_agg(format('%s (id %s)', quote_literal(name), id), ', ' ORDER BY name, id)
                     FILTER (WHERE number <= 10)
    INTO bad, shown
    FROM (
        SELECT name, id, row_number() OVER (ORDER BY name, id) AS number
        FROM storage_volumes
        WHERE name !~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$'
    ) AS offending;
    IF bad > 0 THEN
        RAISE EXCEPTION 'storage_volumes has % name(s) that the new CHECK refuses: %', bad,
            shown || CASE WHEN bad > 10 THEN ', ...' ELSE '' END
            USING ERRCODE = 'check_violation', HINT = 'Rename these volumes, then run the upgrade again.';
    END IF;
END
$do$
"""
    )
    op.execute(
        """
ALTER TABLE storage_volumes
    DROP CONSTRAINT IF EXISTS ck_storage_volumes_name_format,
    ADD CONSTRAINT ck_storage_volumes_name_format CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$') NOT VALID
"""
    )
    with op.get_context().autocommit_block():
        op.execute("ALTER TABLE storage_volumes VALIDATE CONSTRAINT ck_storage_volumes_name_format")


def downgrade() -> None:
    op.execute("ALTER TABLE storage_volumes DROP CONSTRAINT ck_storage_volumes_name_format")
