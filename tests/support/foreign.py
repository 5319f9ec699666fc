"""Alembic projects that are not ours: written into a folder, as `alembic init` and their authors would."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.history import ROOT

MODELS = """
import sqlalchemy as sa

metadata = sa.MetaData()
billing = sa.MetaData()

customer = sa.Table(
    "customer", metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(80), nullable=False),
    sa.CheckConstraint("length(name) > 0", name="customer_name_not_empty"),
)
invoice = sa.Table(
    "invoice", billing,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("total", sa.Numeric(12, 2), nullable=False, server_default=sa.text("0")),
    schema="billing",
)
"""

REVISION = '''
"""first"""
import sqlalchemy as sa
from alembic import op

revision = "aaaa00000001"
down_revision = None


def upgrade():
    op.create_table(
        "customer",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
        sa.CheckConstraint("length(name) > 0", name="customer_name_not_empty"),
    )
    op.execute("CREATE SCHEMA IF NOT EXISTS billing")
    op.create_table(
        "invoice",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("total", sa.Numeric(12, 2), nullable=False, server_default=sa.text("0")),
        schema="billing",
    )


def downgrade():
    op.drop_table("invoice", schema="billing")
    op.drop_table("customer")
'''

GENERIC = """
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from alembic import context
from sqlalchemy import engine_from_config, pool
from foreign_models import billing, metadata

config = context.config
target_metadata = [metadata, billing]
{extra}


def run_migrations_offline():
    context.configure(
        url=config.get_main_option("sqlalchemy.url"), target_metadata=target_metadata, literal_binds=True,
        dialect_opts={{"paramstyle": "named"}}, include_schemas=True, {options}
    )
    with context.begin_transaction():
        context.run_migrations()


def run_migrations_online():
    connectable = engine_from_config(
        config.get_section(config.config_ini_section, {{}}), prefix="sqlalchemy.", poolclass=pool.NullPool
    )
    with connectable.connect() as connection:
        context.configure(
            connection=connection, target_metadata=target_metadata, include_schemas=True, {options}
        )
        with context.begin_transaction():
            context.run_migrations()


if context.is_offline_mode():
    run_migrations_offline()
else:
    run_migrations_online()
"""

ASYNC = """
import asyncio
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from alembic import context
from sqlalchemy import pool
from sqlalchemy.ext.asyncio import create_async_engine
from foreign_models import billing, metadata

config = context.config
target_metadata = [metadata, billing]


def do_run_migrations(connection):
    context.configure(connection=connection, target_metadata=target_metadata, include_schemas=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_async_migrations():
    # Not the ini's URL: this project has its own, which nobody may touch.
    connectable = create_async_engine("postgresql+psycopg://nobody@203.0.113.1:1/production", poolclass=pool.NullPool)
    async with connectable.connect() as connection:
        await connection.run_sync(do_run_migrations)
    await connectable.dispose()


# It has no offline form at all.
asyncio.run(run_async_migrations())
"""


def write_project(
    folder: Path,
    *,
    env: str = GENERIC,
    extra: str = "",
    options: str = "",
    models: str = MODELS,
    revisions: Mapping[str, str] | None = None,
    ini: str = "",
) -> Path:
    """Write a project and return its ini."""
    (folder / "alembic" / "versions").mkdir(parents=True)
    path = folder / "alembic.ini"
    path.write_text(
        f"[alembic]\nscript_location = %(here)s/alembic\nsqlalchemy.url = driver://user:pass@localhost/dbname\n{ini}\n"
    )
    text = env.format(extra=extra, options=options) if env is GENERIC else env
    (folder / "alembic/env.py").write_text(text)
    (folder / "alembic/foreign_models.py").write_text(models)
    (folder / "alembic/script.py.mako").write_text((ROOT / "migrations/script.py.mako").read_text())
    for name, source in (revisions or {"0001_first.py": REVISION}).items():
        (folder / "alembic/versions" / name).write_text(source)
    return path


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but what Python itself caches."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@contextmanager
def own_imports() -> Iterator[None]:
    """Forget what a project's env.py imports and adds to the path, so that the next one is read anew."""
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        sys.modules.pop("foreign_models", None)
        # A module rewritten within a second has the size and time of its cached bytecode.
        importlib.invalidate_caches()


def schemactl(
    *words: str, cache: Path, scratch: str | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `schemactl` in a process of its own, away from every project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCHEMACTL_", "DATABASE_URL"))}
    return subprocess.run(
        [sys.executable, "-m", "schema", *words],
        env={
            **kept,
            "PYTHONPATH": str(ROOT),
            "XDG_CACHE_HOME": str(cache),
            **({"SCHEMACTL_SCRATCH_URL": scratch} if scratch else {}),
            **(environment or {}),
        },
        cwd=cache,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
