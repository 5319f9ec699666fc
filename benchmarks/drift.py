"""What a drift check costs beside `pg_dump -s` and `alembic check`, and how it grows with the schema.

Prints one JSON object of ratios. The sides of each are run interleaved, after one run of each that is not counted, and
the medians are compared. Needs an installed PostgreSQL with pg_dump: --pg-bindir, by default Debian's 15.

    snapshot        reading the live catalogs, connection included, beside `pg_dump -s` of the same 100 tables
    round_trips     messages that the snapshot waits for
    models_live     `schemactl drift --between models,live` beside `alembic check`, whole processes, 100 tables
    three_way       `schemactl drift` with a warm history cache beside the former
    growth          the snapshot of 2,000 tables beside that of 200, per table
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from schema.pg.catalog import read_snapshot
from schema.pg.scratch import ScratchServer

TARGETS = {"snapshot": 2.0, "round_trips": 15, "models_live": 1.0, "three_way": 1.3, "growth": 1.2}
ROOT = Path(__file__).resolve().parents[1]

TABLES = """
import sqlalchemy as sa

metadata = sa.MetaData()
for number in range({tables}):
    sa.Table(
        f"t{{number}}", metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("before", sa.ForeignKey(f"t{{max(number - 1, 0)}}.id", ondelete="CASCADE"), index=True),
        sa.Column("name", sa.String(80), nullable=False, unique=True),
        sa.Column("kind", sa.String(20), server_default=sa.text("'plain'"), nullable=False),
        sa.Column("amount", sa.Numeric(24, 6), server_default=sa.text("0"), nullable=False),
        sa.Column("is_open", sa.Boolean, server_default=sa.text("true"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("note", sa.Text),
        sa.CheckConstraint("amount >= 0", name=f"ck_t{{number}}_amount"),
        sa.CheckConstraint("kind IN ('plain', 'odd')", name=f"ck_t{{number}}_kind"),
        sa.Index(f"ix_t{{number}}_open", "created_at", postgresql_where=sa.text("is_open")),
    )
"""

ENV = """
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
from alembic import context
from sqlalchemy import create_engine, pool
from bench_models import metadata

url = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=url, target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    with create_engine(url, poolclass=pool.NullPool).connect() as connection:
        context.configure(connection=connection, target_metadata=metadata, compare_server_default=True)
        with context.begin_transaction():
            context.run_migrations()
"""

REVISION = '''
"""all"""
import os, sys
from alembic import op

revision = "aaaa00000001"
down_revision = None


def upgrade():
    from bench_models import metadata
    metadata.create_all(op.get_bind())


def downgrade():
    pass
'''


class Counting(psycopg.Connection[Any]):
    trips = 0

    def wait(self, *arguments: Any, **keywords: Any) -> Any:
        self.trips += 1
        return super().wait(*arguments, **keywords)


def interleaved(repeats: int, *sides: Callable[[], object]) -> list[float]:
    """Median of each side, in seconds."""
    times: list[list[float]] = [[] for _ in sides]
    for number in range(repeats + 1):
        for side, taken in zip(sides, times, strict=True):
            began = time.perf_counter()
            side()
            if number:
                taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


def filled(server: ScratchServer, tables: int) -> str:
    """URL of a database with that many tables."""
    url = server.create_database(f"bench_{tables}")
    namespace: dict[str, Any] = {}
    exec(TABLES.format(tables=tables), namespace)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        # One commit for all of it would need more locks than a server has by default.
        for table in namespace["metadata"].sorted_tables:
            table.create(connection, checkfirst=False)
    return url


def plain(url: str) -> str:
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def snapshot(url: str) -> None:
    with psycopg.connect(plain(url)) as connection:
        read_snapshot(connection)


def project(folder: Path, tables: int, url: str) -> Path:
    (folder / "alembic/versions").mkdir(parents=True)
    escaped = url.replace("%", "%%")
    (folder / "alembic.ini").write_text(f"[alembic]\nscript_location = %(here)s/alembic\nsqlalchemy.url = {escaped}\n")
    (folder / "alembic/env.py").write_text(ENV)
    (folder / "alembic/bench_models.py").write_text(TABLES.format(tables=tables))
    (folder / "alembic/versions/0001_all.py").write_text(REVISION)
    return folder / "alembic.ini"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-bindir", type=Path, default=Path("/usr/lib/postgresql/15/bin"))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--large", type=int, default=2000, help="Tables of the large schema.")
    options = parser.parse_args()
    figures: dict[str, float] = {}
    settings = {"max_locks_per_transaction": "1024"}
    with ScratchServer(options.pg_bindir, settings=settings) as server, tempfile.TemporaryDirectory() as folder:
        url = filled(server, 100)

        def dump() -> None:
            command = [str(server.bindir / "pg_dump"), "-s", "-d", plain(url), "-f", os.devnull]
            subprocess.run(command, check=True)

        ours, theirs = interleaved(options.repeats, lambda: snapshot(url), dump)
        figures["snapshot"] = ours / theirs
        with Counting.connect(plain(url)) as counting:
            before = counting.trips
            read_snapshot(counting)
            figures["round_trips"] = counting.trips - before

        ini = project(Path(folder) / "project", 100, url)
        environment = {
            **{name: value for name, value in os.environ.items() if name not in {"SCHEMACTL_URL", "DATABASE_URL"}},
            "PYTHONPATH": str(ROOT),
            "SCHEMACTL_SCRATCH_URL": server.url(),
            "XDG_CACHE_HOME": folder,
        }

        def run(*words: str) -> Callable[[], None]:
            def call() -> None:
                done = subprocess.run(
                    [sys.executable, "-m", *words], env=environment, capture_output=True, text=True, check=False
                )
                if done.returncode:
                    raise SystemExit(f"{words}: {done.stdout}{done.stderr}")

            return call

        with psycopg.connect(plain(url), autocommit=True) as connection:
            connection.execute("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY)")
            connection.execute("INSERT INTO alembic_version VALUES ('aaaa00000001')")
        pair, three, check = interleaved(
            options.repeats,
            run("schema", "-q", "-c", str(ini), "drift", "--between", "models,live"),
            run("schema", "-q", "-c", str(ini), "drift"),
            run("alembic", "-c", str(ini), "check"),
        )
        figures |= {"models_live": pair / check, "three_way": three / pair}

        small, large = filled(server, 200), filled(server, options.large)
        few, many = interleaved(options.repeats, lambda: snapshot(small), lambda: snapshot(large))
        figures["growth"] = many / few / (options.large / 200)
        seconds = {"snapshot": ours, "models_live": pair, "three_way": three, "alembic_check": check, "large": many}
    print(
        json.dumps(
            {
                "figures": {name: round(value, 3) for name, value in figures.items()},
                "targets": TARGETS,
                "met": {name: figures[name] <= target for name, target in TARGETS.items()},
                "seconds": {name: round(value, 4) for name, value in seconds.items()},
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
