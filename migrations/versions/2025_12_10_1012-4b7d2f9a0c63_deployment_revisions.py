"""Create the deployment revision tables.

What: deployment_revisions, deployment_revision_resource_slots and deployment_revision_environ: the complete spec of
what an endpoint serves, numbered within the endpoint.
Why: a service definition may give or override what a deployment request says; only the merged result is worth keeping.
Locks on existing tables: SHARE ROW EXCLUSIVE on endpoints, bootstrap_script_revisions, resource_slot_types and images,
which stops their writers (not their readers, nor rows that only refer to them) until the transaction ends. The new
tables are empty, so nothing is scanned, and images is taken last, for one statement.
Old code on the new schema: works; it doesn't know the tables. An endpoint that it deletes takes its revisions along.
Downgrade loses: every deployment revision with its slots and environment; ACCESS EXCLUSIVE on the four tables above for
an instant, since dropping a foreign key drops its triggers there.

Revision ID: 4b7d2f9a0c63
Revises: a3e7f1c6d840
Create Date: 2025-12-10 10:12:00.000000
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

# Part of: NEXT_RELEASE_VERSION
revision = "4b7d2f9a0c63"
down_revision = "a3e7f1c6d840"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deployment_revisions",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("endpoint_id", sa.Uuid(), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.Uuid(), nullable=True),
        sa.Column("image", sa.String(length=512), nullable=False),
        sa.Column("architecture", sa.String(length=32), nullable=False),
        sa.Column("runtime_variant", sa.String(length=32), nullable=False),
        sa.Column("shmem", sa.BigInteger(), nullable=True),
        sa.Column("startup_command", sa.Text(), nullable=True),
        sa.Column("bootstrap_script_revision_id", sa.Uuid(), nullable=True),
        sa.Column("preopen_ports", postgresql.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("cluster_mode", sa.String(length=16), server_default=sa.text("'single-node'"), nullable=False),
        sa.Column("cluster_size", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("model_definition_path", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("shmem >= 0", name=op.f("ck_deployment_revisions_shmem_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployment_revisions")),
        sa.UniqueConstraint("endpoint_id", "revision_number", name=op.f("uq_deployment_revisions_endpoint_id")),
    )
    op.create_index(op.f("ix_deployment_revisions_image_id"), "deployment_revisions", ["image_id"])
    op.create_index(
        op.f("ix_deployment_revisions_bootstrap_script_revision_id"),
        "deployment_revisions",
        ["bootstrap_script_revision_id"],
    )
    op.create_table(
        "deployment_revision_resource_slots",
        sa.Column("revision_id", sa.Uuid(), nullable=False),
        sa.Column("slot_name", sa.String(length=64), nullable=False),
        sa.Column("quantity", sa.Numeric(precision=24, scale=6), nullable=False),
        sa.CheckConstraint(
            "quantity >= 0 AND quantity <> 'NaN'",
            name=op.f("ck_deployment_revision_resource_slots_quantity_not_negative"),
        ),
        sa.ForeignKeyConstraint(
            ["revision_id"],
            ["deployment_revisions.id"],
            name=op.f("fk_deployment_revision_resource_slots_revision_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("revision_id", "slot_name", name=op.f("pk_deployment_revision_resource_slots")),
    )
    op.create_table(
        "deployment_revision_environ",
        sa.Column("revision_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.CheckConstraint("key ~ '^[A-Za-z_][A-Za-z0-9_]*$'", name=op.f("ck_deployment_revision_environ_key_format")),
        sa.ForeignKeyConstraint(
            ["revision_id"],
            ["deployment_revisions.id"],
            name=op.f("fk_deployment_revision_environ_revision_id_deployment_revisions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("revision_id", "key", name=op.f("pk_deployment_revision_environ")),
    )
    # Foreign keys inside CREATE TABLE would lock the tables they refer to from there on.
    op.create_foreign_key(
        op.f("fk_deployment_revisions_endpoint_id_endpoints"),
        "deployment_revisions",
        "endpoints",
        ["endpoint_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.create_foreign_key(
        op.f("fk_deployment_revisions_bootstrap_script"),
        "deployment_revisions",
        "bootstrap_script_revisions",
        ["bootstrap_script_revision_id"],
        ["id"],
        ondelete="RESTRICT",
    )
    op.create_foreign_key(
        op.f("fk_deployment_revision_resource_slots_slot_name"),
        "deployment_revision_resource_slots",
        "resource_slot_types",
        ["slot_name"],
        ["slot_name"],
    )
    op.create_foreign_key(
        op.f("fk_deployment_revisions_image_id_images"),
        "deployment_revisions",
        "images",
        ["image_id"],
        ["id"],
        ondelete="SET NULL",
    )


def downgrade() -> None:
    op.drop_table("deployment_revision_environ")
    op.drop_table("deployment_revision_resource_slots")
    op.drop_table("deployment_revisions")
