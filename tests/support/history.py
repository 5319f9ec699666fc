"""A database that is moved through this project's history, in this process or by plain `alembic`."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config

from schema.migrate import runner
from schema.migrate.project import Project
from schema.migrate.settings import ATTRIBUTE, Caller
from schema.pg.binaries import find_installation
from schema.pg.connect import connect
from schema.pg.target import Target
from tests.support.catalog import catalog

ROOT = Path(__file__).parents[2]
INI = ROOT / "alembic.ini"
HEAD = "4e2a9c7f1b58"
VERSIONS = ROOT / "migrations/versions"
REVISIONS = len(list(VERSIONS.glob("*.py")))


def ini(folder: Path, *, script_location: Path | None = None, **options: object) -> Path:
    """Write this project's alembic.ini into a folder, with other options."""
    text = INI.read_text()
    text = text.replace(
        "script_location = %(here)s/migrations", f"script_location = {script_location or ROOT / 'migrations'}"
    )
    for name, value in options.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
        lines.insert(lines.index("[alembic]") + 1, f"{name} = {value}")
        text = "\n".join(lines)
    path = folder / "alembic.ini"
    path.write_text(text)
    return path


ENV = """
import sqlalchemy as sa
from schema.migrate.settings import run_environment
run_environment(sa.MetaData())
"""


def project(folder: Path, *bodies: str, **options: object) -> Path:
    """A project with the same env.py, whose revisions r1, r2, ... run the bodies given."""
    (folder / "history/versions").mkdir(parents=True)
    (folder / "history/env.py").write_text(ENV)
    for number, body in enumerate(bodies, start=1):
        down = f"r{number - 1}" if number > 1 else None
        (folder / f"history/versions/r{number}.py").write_text(
            f'"""Revision {number}."""\n\nfrom alembic import op\n\nrevision = "r{number}"\ndown_revision = {down!r}\n'
            f"\n\ndef upgrade() -> None:\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
            '\n\ndef downgrade() -> None:\n    raise NotImplementedError("test")\n'
        )
    return ini(folder, script_location=folder / "history", **options)


def alembic(
    *arguments: str, url: str | None = None, config: Path = INI, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run plain `alembic` in a process of its own."""
    return subprocess.run(
        alembic_command(*arguments, config=config),
        env=alembic_environment(url, environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def alembic_command(*arguments: str, config: Path = INI) -> list[str]:
    return [sys.executable, "-m", "alembic", "-c", str(config), *arguments]


def alembic_environment(url: str | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"SCHEMACTL_URL", "DATABASE_URL"}}
    return {**kept, **({"SCHEMACTL_URL": url} if url else {}), **(more or {})}


def psql() -> str:
    """The client that comes with the embedded server."""
    return str(find_installation(None).client("psql"))


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that happens in another process."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass
class Database:
    """A database and the project whose history it goes through."""

    url: str
    config: Path = INI

    @property
    def target(self) -> Target:
        return Target.parse(self.url, "test")

    @property
    def project(self) -> Project:
        return Project.open(self.config)

    @contextmanager
    def connection(self, **options: Any) -> Iterator[psycopg.Connection]:
        with connect(self.target, autocommit=True, **options) as connection:
            yield connection

    def alembic(self, name: str, *arguments: str) -> list[str]:
        """Run a command of Alembic in this process, as `schemactl` would; return the lines it printed."""
        printed = StringIO()
        config = Config(str(self.config), stdout=printed, attributes={ATTRIBUTE: Caller(self.target, print)})
        getattr(command, name)(config, *arguments)
        return printed.getvalue().splitlines()

    def upgrade(self, revision: str = "head", *, yes: bool = False) -> runner.Run:
        return runner.upgrade(self.project, self.target, revision, options=runner.Options(yes=yes))

    def downgrade(self, revision: str, *, yes: bool = False) -> runner.Run:
        return runner.downgrade(self.project, self.target, revision, options=runner.Options(yes=yes))

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return connection.execute(query, parameters or None).fetchall()

    def value(self, query: str, parameters: Sequence[object] = ()) -> Any:
        return self.rows(query, parameters)[0][0]

    def run(self, *statements: str) -> None:
        with self.connection() as connection:
            for statement in statements:
                connection.execute(statement)

    def catalog(self, *, without: Sequence[str] = ()) -> list[str]:
        with self.connection() as connection:
            return catalog(connection, without=without)

    def current(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self.rows("SELECT version_num FROM alembic_version ORDER BY 1"))

    def table_exists(self, name: str) -> bool:
        return self.value("SELECT to_regclass(%s) IS NOT NULL", [name])

    def index(self, name: str) -> tuple[str, bool] | None:
        """Definition of an index, after its name, and whether it is valid."""
        found = self.rows(
            "SELECT pg_get_indexdef(indexrelid), indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name]
        )
        return (found[0][0].partition(" ON ")[2], found[0][1]) if found else None

    def constraint(self, name: str) -> tuple[str, bool] | None:
        """Definition of a constraint and whether it is validated."""
        found = self.rows(
            "SELECT pg_get_constraintdef(oid), convalidated FROM pg_constraint WHERE conname = %s", [name]
        )
        return found[0] if found else None

    def runner_locks(self) -> int:
        """How many runners hold this database's lock."""
        return self.value(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
            "WHERE locktype = 'advisory' AND datname = current_database()"
        )

    def seed(self, sessions: int = 2) -> None:
        """Add sessions with two kernels each, as the first revision knows them, and what they refer to."""
        self.run(
            "INSERT INTO domains (name) VALUES ('default') ON CONFLICT DO NOTHING",
            "INSERT INTO scaling_groups (name) VALUES ('gpu') ON CONFLICT DO NOTHING",
            "INSERT INTO agents (id, scaling_group) VALUES ('i-1', 'gpu') ON CONFLICT DO NOTHING",
            "INSERT INTO images (name, project, registry, tag) VALUES ('python', 'stable', 'cr.example', '3.12') "
            "ON CONFLICT DO NOTHING",
            f"""
            WITH made AS (
                INSERT INTO sessions (name, domain_name, scaling_group_name, user_uuid, status)
                SELECT 'session-' || gen_random_uuid(), 'default', 'gpu', gen_random_uuid(),
                    CASE n % 2 WHEN 0 THEN 'RUNNING' ELSE 'TERMINATED' END
                FROM generate_series(1, {sessions}) AS n
                RETURNING id, status
            ), kernels_made AS (
                INSERT INTO kernels (session_id, cluster_role, scaling_group, agent, image_id, environ, status)
                SELECT made.id, role, 'gpu', 'i-1', images.id, ARRAY['A=1'], made.status
                FROM made, images, (VALUES ('main'), ('worker')) AS roles (role)
                RETURNING id
            )
            INSERT INTO resource_allocations (kernel_id, slot_name, requested)
            SELECT id, slot_name, 2 FROM kernels_made, (VALUES ('cpu'), ('mem')) AS slots (slot_name)
            """,
        )
