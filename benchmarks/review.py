"""What a review of this project's whole chain costs beside running it.

Prints one JSON object. Both run interleaved on one scratch server, in whole processes; the medians are compared.
--pg-bindir names an installed PostgreSQL; by default it is the embedded one.

    chain       seconds of `schemactl review` less two, over those of `alembic upgrade head`
    no_reverse  the same without taking each revision down and up again
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path

from schema.pg.scratch import ScratchServer

TARGETS = {"chain": 3.0, "no_reverse": 3.0}
ROOT = Path(__file__).resolve().parents[1]


def timed(arguments: list[str], environment: dict[str, str]) -> float:
    """Seconds of a process that must end with 0."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.monotonic() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pg-bindir", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    times: dict[str, list[float]] = {"upgrade": [], "chain": [], "no_reverse": []}
    with ScratchServer(options.pg_bindir) as server:
        for _ in range(options.runs):
            name = f"bench_{uuid.uuid4().hex[:8]}"
            environment = {**os.environ, "SCHEMACTL_SCRATCH_URL": server.url()}
            upgraded = {**environment, "SCHEMACTL_URL": server.create_database(name)}
            times["upgrade"].append(timed(["alembic", "upgrade", "head"], upgraded))
            times["chain"].append(timed(["schema", "-q", "review"], environment))
            times["no_reverse"].append(timed(["schema", "-q", "review", "run", "--no-reverse"], environment))
            server.drop_database(name)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    ratios = {name: round(max(medians[name] - 2, 0) / medians["upgrade"], 2) for name in TARGETS}
    seconds = {name: round(value, 2) for name, value in medians.items()}
    print(json.dumps({"ratios": ratios, "targets": TARGETS, "seconds": seconds}, indent=2))


if __name__ == "__main__":
    main()
