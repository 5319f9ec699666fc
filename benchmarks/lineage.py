"""How long `schemactl heads` and our `upgrade` take beside plain Alembic, and `schemactl --help` beside click.

Prints one JSON object. Each pair is run interleaved, after one run of each that is not counted (so Alembic has its
bytecode cache), and the medians are compared. Both
sides are whole processes, start-up included, since that is what a hook or a CI job waits for.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import alembic

from schema.pg.scratch import DURABLE, ScratchServer

TARGETS = {"heads_500": 0.5, "heads_5000": 1 / 3, "help": 1.5, "upgrade": 1.1}
ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(sys.executable).parent

REVISION = '''"""Change number {number}.

Revision ID: {id}
Revises: {parent}
Create Date: 2026-01-01 00:00:00

"""
from typing import Sequence, Union

from alembic import op
import sqlalchemy as sa


# revision identifiers, used by Alembic.
revision: str = {id!r}
down_revision: Union[str, Sequence[str], None] = {down!r}
branch_labels: Union[str, Sequence[str], None] = None
depends_on: Union[str, Sequence[str], None] = None


def upgrade() -> None:
    """Upgrade schema."""
    op.create_table(
        "t{number}",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_t{number}_name"), "t{number}", ["name"], unique=False)


def downgrade() -> None:
    """Downgrade schema."""
    op.drop_index(op.f("ix_t{number}_name"), table_name="t{number}")
    op.drop_table("t{number}")
'''


def project(folder: Path, count: int) -> Path:
    """A linear history as `alembic revision` writes it."""
    versions = folder / "migrations" / "versions"
    versions.mkdir(parents=True)
    parent = None
    for number in range(count):
        id_ = f"{(number * 2654435761) % 2**48:012x}"
        (versions / f"{id_}_change.py").write_text(
            REVISION.format(number=number, id=id_, parent=parent or "", down=parent)
        )
        parent = id_
    ini = folder / "alembic.ini"
    ini.write_text("[alembic]\nscript_location = %(here)s/migrations\npath_separator = os\n")
    return ini


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def compare(ours: list[str], theirs: list[str], rounds: int) -> dict[str, object]:
    seconds(ours)
    seconds(theirs)
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"ours_s": round(mine, 4), "theirs_s": round(other, 4), "ratio": round(mine / other, 3)}


def plain_env() -> str:
    """Alembic's own env.py as `alembic init` writes it, with our models and a transaction for each revision."""
    template = Path(alembic.__file__).parent / "templates/generic/env.py"
    text = template.read_text()
    for old, new in {
        "target_metadata = None": "from schema.models import metadata as target_metadata",
        "connection=connection,": "connection=connection, transaction_per_migration=True,",
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def upgrades(rounds: int) -> dict[str, object]:
    """`alembic upgrade head` on this project's chain, with its env.py and with Alembic's own."""
    with tempfile.TemporaryDirectory() as folder, ScratchServer(settings=DURABLE) as server:
        plain = Path(folder) / "plain"
        shutil.copytree(ROOT / "migrations", plain / "migrations")
        (plain / "migrations/env.py").write_text(plain_env())

        def once(config: Path) -> float:
            url = server.create_database()
            text = (ROOT / "alembic.ini").read_text().replace("%(here)s/migrations", str(config / "migrations"))
            ini = Path(folder) / "alembic.ini"
            ini.write_text(text.replace("[alembic]\n", f"[alembic]\nsqlalchemy.url = {url.replace('%', '%%')}\n"))
            return seconds([str(SCRIPTS / "alembic"), "-c", str(ini), "upgrade", "head"])

        once(ROOT), once(plain)
        pairs = [(once(ROOT), once(plain)) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"ours_s": round(mine, 4), "theirs_s": round(other, 4), "ratio": round(mine / other, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    schemactl, alembic = str(SCRIPTS / "schemactl"), str(SCRIPTS / "alembic")
    results: dict[str, dict[str, object]] = {}
    for count in (500, 5000):
        with tempfile.TemporaryDirectory() as folder:
            ini = str(project(Path(folder), count))
            ours, theirs = [schemactl, "-c", ini, "heads"], [alembic, "-c", ini, "heads"]
            results[f"heads_{count}"] = compare(ours, theirs, rounds)
            thorough = compare([*ours, "--check"], theirs, max(3, rounds // 3))
            results[f"heads_check_{count}"] = thorough
    results["help"] = compare([schemactl, "--help"], [sys.executable, "-c", "import click"], rounds * 4)
    results["upgrade"] = upgrades(rounds)
    for name, target in TARGETS.items():
        results[name] |= {"target": round(target, 3), "reached": float(str(results[name]["ratio"])) <= target}
    print(json.dumps({"benchmark": "lineage", "python": sys.version.split()[0], "rounds": rounds, **results}, indent=2))


if __name__ == "__main__":
    main()
