"""What a review costs beside running what it reviews.

Prints one JSON object. Each figure and its reference run interleaved on one scratch server, in whole processes, and the
medians are compared. --pg-bindir names an installed PostgreSQL; by default it is the embedded one.

    chain       seconds of `schemactl review` of this project less two, over those of `alembic upgrade head`
    no_reverse  the same without taking each revision down and up again
    newest      `schemactl review` of the last of --revisions revisions, over `alembic upgrade head` from empty
    cached      seconds of the same where the parents' database is kept by an earlier review
    memory      peak of a review of a tenth of the chain, over that of a twentieth
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from schema.pg.scratch import ScratchServer

TARGETS = {"chain": 3.0, "no_reverse": 3.0, "newest": 1.5, "cached": 3.0, "memory": 1.2}
ROOT = Path(__file__).resolve().parents[1]

ENV = """
import sqlalchemy as sa
from alembic import context

metadata = sa.MetaData()
if context.is_offline_mode():
    context.configure(dialect_name="postgresql", target_metadata=metadata)
    context.run_migrations()
else:
    options = {"options": "-c lock_timeout=2s -c statement_timeout=600s"}
    engine = sa.create_engine(context.config.get_main_option("sqlalchemy.url"), connect_args=options)
    with engine.connect() as connection:
        context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()
"""

REVISION = '''"""Revision {number}."""

import sqlalchemy as sa
from alembic import op

revision = "r{number:04}"
down_revision = {below!r}


def upgrade() -> None:
    {upgrade}


def downgrade() -> None:
    {downgrade}
'''


def write_project(folder: Path, revisions: int) -> Path:
    """A project of so many revisions: of each five, one table and four columns of it."""
    versions = folder / "migrations/versions"
    versions.mkdir(parents=True)
    (folder / "migrations/env.py").write_text(ENV)
    for number in range(1, revisions + 1):
        table, place = f"t{(number - 1) // 5:04}", (number - 1) % 5
        if place == 0:
            key = 'sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True)'
            upgrade, downgrade = f'op.create_table("{table}", {key})', f'op.drop_table("{table}")'
        else:
            upgrade = f'op.add_column("{table}", sa.Column("c{place}", sa.Text))'
            downgrade = f'op.drop_column("{table}", "c{place}")'
        below = f"r{number - 1:04}" if number > 1 else None
        text = REVISION.format(number=number, below=below, upgrade=upgrade, downgrade=downgrade)
        (versions / f"r{number:04}.py").write_text(text)
    ini = folder / "alembic.ini"
    ini.write_text(f"[alembic]\nscript_location = {folder / 'migrations'}\nsqlalchemy.url = postgresql+psycopg://\n")
    return ini


def timed(arguments: list[str], environment: dict[str, str]) -> float:
    """Seconds of a process that must end with 0 or with findings."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode not in {0, 3}:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return time.monotonic() - started


def peak_mib(arguments: list[str], environment: dict[str, str]) -> float:
    """Largest resident size of a process, asked of the kernel by a process in between."""
    code = (
        "import resource, subprocess, sys; "
        "subprocess.run([sys.executable, '-m', *sys.argv[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", code, *arguments]
    printed = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    return int(printed) / (1024**2 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pg-bindir", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--revisions", type=int, default=500)
    options = parser.parse_args()
    times: dict[str, list[float]] = {
        name: [] for name in ("upgrade", "chain", "no_reverse", "upgrade_project", "newest", "cached")
    }
    folder = Path(tempfile.mkdtemp())
    try:
        ini = str(write_project(folder, options.revisions))
        with ScratchServer(options.pg_bindir) as server:
            environment = {**os.environ, "SCHEMACTL_SCRATCH_URL": server.url()}
            newest = ["schema", "-q", "-c", ini, "review", "--latest", "1"]
            # The embedded server of a state folder of its own: only there databases are kept.
            lasting = {name: value for name, value in environment.items() if name != "SCHEMACTL_SCRATCH_URL"}
            timed(newest, lasting)
            for _ in range(options.runs):
                name = f"bench_{uuid.uuid4().hex[:8]}"
                upgraded = {**environment, "SCHEMACTL_URL": server.create_database(name)}
                times["upgrade"].append(timed(["alembic", "upgrade", "head"], upgraded))
                times["chain"].append(timed(["schema", "-q", "review"], environment))
                times["no_reverse"].append(timed(["schema", "-q", "review", "run", "--no-reverse"], environment))
                other = f"bench_{uuid.uuid4().hex[:8]}"
                url = server.create_database(other)
                text = Path(ini).read_text()
                Path(ini).write_text(text.replace("postgresql+psycopg://\n", f"{url.replace('%', '%%')}\n"))
                times["upgrade_project"].append(timed(["alembic", "-c", ini, "upgrade", "head"], environment))
                Path(ini).write_text(text)
                times["newest"].append(timed(newest, environment))
                times["cached"].append(timed(newest, lasting))
                server.drop_database(name)
                server.drop_database(other)
            few, many = (
                peak_mib(["schema", "-q", "-c", ini, "review", "run", "--no-reverse", "--latest", str(n)], environment)
                for n in (options.revisions // 20, options.revisions // 10)
            )
    finally:
        shutil.rmtree(folder)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    ratios = {
        "chain": max(medians["chain"] - 2, 0) / medians["upgrade"],
        "no_reverse": max(medians["no_reverse"] - 2, 0) / medians["upgrade"],
        "newest": medians["newest"] / medians["upgrade_project"],
        "cached": medians["cached"],
        "memory": many / few,
    }
    print(
        json.dumps(
            {
                "ratios": {name: round(value, 2) for name, value in ratios.items()},
                "targets": TARGETS,
                "seconds": {name: round(value, 2) for name, value in medians.items()},
                "mib": [round(few), round(many)],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
