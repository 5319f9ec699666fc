"""Create the cluster's tables.

What: the function uuid_generate_v7(), fourteen tables from domains to storage_volumes, and the resource slot types.
Why: the ground that everything later stands on. Ids are ordered by time, so that index inserts append.
Locks on existing tables: none.
Old code on the new schema: there is none before this revision.
Downgrade loses: every row of these tables, and the function.

Revision ID: 8c1f0a5e2d73
Revises:
Create Date: 2025-11-03 09:10:00.000000
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

# Part of: NEXT_RELEASE_VERSION
revision = "8c1f0a5e2d73"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The server that runs it decides by its version: an offline script doesn't know which one that will be.
    op.execute(
        """
DO $do$
BEGIN
    IF to_regprocedure('uuid_generate_v7()') IS NOT NULL THEN
        RETURN;
    ELSIF current_setting('server_version_num')::int >= 180000 THEN
        CREATE FUNCTION uuid_generate_v7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
        AS $fn$SELECT uuidv7()$fn$;
    ELSE
        CREATE FUNCTION uuid_generate_v7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
        AS $fn$SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
            FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid$fn$;
    END IF;
END
$do$
"""
    )
    op.create_table(
        "domains",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_domains")),
        sa.UniqueConstraint("id", name=op.f("uq_domains_id")),
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("domain_name", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["domain_name"], ["domains.name"], name=op.f("fk_groups_domain_name_domains"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        sa.UniqueConstraint("name", "domain_name", name=op.f("uq_groups_name")),
    )
    op.create_index(op.f("ix_groups_domain_name"), "groups", ["domain_name"])
    op.create_table(
        "users",
        sa.Column("uuid", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("email", sa.String(length=64), nullable=False),
        sa.Column("username", sa.String(length=64), nullable=True),
        sa.Column("domain_name", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["domain_name"], ["domains.name"], name=op.f("fk_users_domain_name_domains")),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
    )
    op.create_index(op.f("ix_users_domain_name"), "users", ["domain_name"])
    op.create_table(
        "scaling_groups",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_scaling_groups")),
        sa.UniqueConstraint("id", name=op.f("uq_scaling_groups_id")),
    )
    op.create_table(
        "agents",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), server_default=sa.text("'ALIVE'"), nullable=False),
        sa.Column("scaling_group", sa.String(length=64), nullable=False),
        sa.Column("architecture", sa.String(length=32), server_default=sa.text("'x86_64'"), nullable=False),
        sa.Column("addr", sa.String(length=128), nullable=True),
        sa.ForeignKeyConstraint(
            ["scaling_group"], ["scaling_groups.name"], name=op.f("fk_agents_scaling_group_scaling_groups")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
    )
    op.create_index(op.f("ix_agents_scaling_group"), "agents", ["scaling_group"])
    op.create_table(
        "images",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("registry", sa.String(length=255), nullable=False),
        sa.Column("tag", sa.String(length=255), nullable=False),
        sa.Column("architecture", sa.String(length=32), server_default=sa.text("'x86_64'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("registry", "project", "name", "tag", "architecture", name=op.f("uq_images_registry")),
    )
    op.create_table(
        "resource_slot_types",
        sa.Column("slot_name", sa.String(length=64), nullable=False),
        sa.Column("slot_type", sa.String(length=16), nullable=False),
        sa.Column("display_name", sa.String(length=64), nullable=True),
        sa.Column("rank", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("slot_name", name=op.f("pk_resource_slot_types")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=True),
        sa.Column("session_type", sa.String(length=64), server_default=sa.text("'interactive'"), nullable=False),
        sa.Column("status", sa.String(length=64), server_default=sa.text("'PENDING'"), nullable=False),
        sa.Column("status_info", sa.Text(), nullable=True),
        sa.Column("cluster_mode", sa.String(length=16), server_default=sa.text("'single-node'"), nullable=False),
        sa.Column("cluster_size", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("10"), nullable=False),
        sa.Column("domain_name", sa.String(length=64), nullable=True),
        sa.Column("group_id", sa.Uuid(), nullable=True),
        sa.Column("user_uuid", sa.Uuid(), nullable=True),
        sa.Column("access_key", sa.String(length=20), nullable=True),
        sa.Column("scaling_group_name", sa.String(length=64), nullable=True),
        sa.Column("environ", postgresql.JSONB(), nullable=True),
        sa.Column(
            "options", postgresql.JSONB(), server_default=sa.text("'{\"kernel_groups\": []}'::jsonb"), nullable=False
        ),
        sa.Column("bootstrap_script", sa.String(length=16384), nullable=True),
        sa.Column("startup_command", sa.Text(), nullable=True),
        sa.Column("requested_starts_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("batch_timeout", sa.BigInteger(), nullable=True),
        sa.Column("terminated_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=True),
        sa.Column("result", sa.String(length=16), server_default=sa.text("'undefined'"), nullable=False),
        sa.ForeignKeyConstraint(["domain_name"], ["domains.name"], name=op.f("fk_sessions_domain_name_domains")),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name=op.f("fk_sessions_group_id_groups")),
        sa.ForeignKeyConstraint(
            ["scaling_group_name"], ["scaling_groups.name"], name=op.f("fk_sessions_scaling_group_name_scaling_groups")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(
        "uq_sessions_name_user_uuid_live",
        "sessions",
        ["name", "user_uuid"],
        unique=True,
        postgresql_where=sa.text("status NOT IN ('ERROR', 'TERMINATED', 'CANCELLED')"),
    )
    op.create_table(
        "kernels",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("session_name", sa.String(length=64), nullable=True),
        sa.Column("session_type", sa.String(length=64), server_default=sa.text("'interactive'"), nullable=False),
        sa.Column("cluster_mode", sa.String(length=16), server_default=sa.text("'single-node'"), nullable=False),
        sa.Column("cluster_size", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("cluster_role", sa.String(length=16), server_default=sa.text("'main'"), nullable=False),
        sa.Column("cluster_idx", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("local_rank", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("cluster_hostname", sa.String(length=64), nullable=True),
        sa.Column("scaling_group", sa.String(length=64), nullable=True),
        sa.Column("agent", sa.String(length=64), nullable=True),
        sa.Column("domain_name", sa.String(length=64), nullable=True),
        sa.Column("group_id", sa.Uuid(), nullable=True),
        sa.Column("user_uuid", sa.Uuid(), nullable=True),
        sa.Column("access_key", sa.String(length=20), nullable=True),
        sa.Column("image", sa.String(length=512), nullable=True),
        sa.Column("image_id", sa.Uuid(), nullable=True),
        sa.Column("architecture", sa.String(length=32), nullable=True),
        sa.Column("registry", sa.String(length=512), nullable=True),
        sa.Column("tag", sa.String(length=64), nullable=True),
        sa.Column("container_id", sa.String(length=64), nullable=True),
        sa.Column("environ", postgresql.ARRAY(sa.String()), nullable=True),
        sa.Column("resource_opts", postgresql.JSONB(), nullable=True),
        sa.Column("preopen_ports", postgresql.ARRAY(sa.Integer()), nullable=True),
        sa.Column("startup_command", sa.Text(), nullable=True),
        sa.Column("bootstrap_script", sa.String(length=16384), nullable=True),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("terminated_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.String(length=64), server_default=sa.text("'PENDING'"), nullable=False),
        sa.Column("status_changed", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=True),
        sa.Column("result", sa.String(length=16), server_default=sa.text("'undefined'"), nullable=False),
        sa.Column("last_stat", postgresql.JSONB(), nullable=True),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_kernels_agent_agents")),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_kernels_image_id_images"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_kernels_session_id_sessions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernels")),
    )
    op.create_index(op.f("ix_kernels_created_at"), "kernels", ["created_at"])
    op.create_index(op.f("ix_kernels_image_id"), "kernels", ["image_id"])
    op.create_index(op.f("ix_kernels_session_id"), "kernels", ["session_id"])
    op.create_index("ix_kernels_session_id_cluster_role", "kernels", ["session_id", "cluster_role"])
    op.create_index("ix_kernels_status_cluster_role", "kernels", ["status", "cluster_role"])
    op.create_index(op.f("ix_kernels_terminated_at"), "kernels", ["terminated_at"])
    op.create_table(
        "session_dependencies",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("depends_on", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["depends_on"],
            ["sessions.id"],
            name=op.f("fk_session_dependencies_depends_on_sessions"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["session_id"],
            ["sessions.id"],
            name=op.f("fk_session_dependencies_session_id_sessions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("session_id", "depends_on", name=op.f("pk_session_dependencies")),
    )
    op.create_table(
        "resource_allocations",
        sa.Column("kernel_id", sa.Uuid(), nullable=False),
        sa.Column("slot_name", sa.String(length=64), nullable=False),
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("requested", sa.Numeric(precision=24, scale=6), nullable=False),
        sa.Column("used", sa.Numeric(precision=24, scale=6), nullable=True),
        sa.Column("free_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["kernel_id"], ["kernels.id"], name=op.f("fk_resource_allocations_kernel_id_kernels"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["slot_name"],
            ["resource_slot_types.slot_name"],
            name=op.f("fk_resource_allocations_slot_name_resource_slot_types"),
        ),
        sa.PrimaryKeyConstraint("kernel_id", "slot_name", name=op.f("pk_resource_allocations")),
        sa.UniqueConstraint("id", name=op.f("uq_resource_allocations_id")),
    )
    op.create_table(
        "endpoints",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("domain_name", sa.String(length=64), nullable=True),
        sa.Column("group_id", sa.Uuid(), nullable=True),
        sa.Column("session_owner", sa.Uuid(), nullable=True),
        sa.Column("scaling_group_name", sa.String(length=64), nullable=True),
        sa.Column("replicas", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("url", sa.String(length=1024), nullable=True),
        sa.Column("lifecycle_stage", sa.String(length=16), server_default=sa.text("'created'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["domain_name"], ["domains.name"], name=op.f("fk_endpoints_domain_name_domains")),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name=op.f("fk_endpoints_group_id_groups")),
        sa.ForeignKeyConstraint(
            ["scaling_group_name"], ["scaling_groups.name"], name=op.f("fk_endpoints_scaling_group_name_scaling_groups")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_endpoints")),
    )
    op.create_index(op.f("ix_endpoints_domain_name"), "endpoints", ["domain_name"])
    op.create_index(op.f("ix_endpoints_group_id"), "endpoints", ["group_id"])
    op.create_index(op.f("ix_endpoints_scaling_group_name"), "endpoints", ["scaling_group_name"])
    op.create_table(
        "routings",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("endpoint_id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=True),
        sa.Column("status", sa.String(length=16), server_default=sa.text("'provisioning'"), nullable=False),
        sa.Column("traffic_ratio", sa.Numeric(precision=6, scale=5), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["endpoint_id"], ["endpoints.id"], name=op.f("fk_routings_endpoint_id_endpoints"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_routings_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_routings")),
    )
    op.create_index(op.f("ix_routings_endpoint_id"), "routings", ["endpoint_id"])
    op.create_index(op.f("ix_routings_session_id"), "routings", ["session_id"])
    op.create_table(
        "storage_volumes",
        sa.Column("id", sa.Uuid(), server_default=sa.text("uuid_generate_v7()"), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=128), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storage_volumes")),
    )
    op.execute(
        """
INSERT INTO resource_slot_types (slot_name, slot_type, display_name, rank) VALUES
    ('cpu', 'count', 'CPU', 10),
    ('mem', 'bytes', 'Memory', 20),
    ('cuda.device', 'count', 'CUDA GPU', 30),
    ('cuda.shares', 'count', 'Fractional CUDA GPU', 40),
    ('rocm.device', 'count', 'ROCm GPU', 50),
    ('tpu.device', 'count', 'TPU', 60),
    ('ipu.device', 'count', 'IPU', 70),
    ('atom.device', 'count', 'ATOM', 80),
    ('atom-plus.device', 'count', 'ATOM+', 90),
    ('atom-max.device', 'count', 'ATOM Max', 100),
    ('gaudi2.device', 'count', 'Gaudi 2', 110),
    ('warboy.device', 'count', 'Warboy', 120),
    ('rngd.device', 'count', 'RNGD', 130),
    ('hyperaccel-lpu.device', 'count', 'Hyperaccel LPU', 140)
"""
    )


def downgrade() -> None:
    op.drop_table("storage_volumes")
    op.drop_table("routings")
    op.drop_table("endpoints")
    op.drop_table("resource_allocations")
    op.drop_table("session_dependencies")
    op.drop_table("kernels")
    op.drop_table("sessions")
    op.drop_table("resource_slot_types")
    op.drop_table("images")
    op.drop_table("agents")
    op.drop_table("scaling_groups")
    op.drop_table("users")
    op.drop_table("groups")
    op.drop_table("domains")
    op.execute("DROP FUNCTION IF EXISTS uuid_generate_v7()")
