"""Drives the backfill engine for `backfill.py`, in a process that imports nothing else, so that its memory is ours.

The argument is a JSON object: `conninfo`, and maybe `workers`, `batch_size`, `full_speed`, `wal_compression`, and
`max_time` in seconds.
"""

import json
import resource
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from schema.backfill import engine
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.settings import Settings

JOB = KernelGroups()


def drive(order: Mapping[str, Any]) -> dict[str, float]:
    """Drive the engine; report the seconds up to its last batch and in all, and the most memory that was resident."""
    last = started = time.monotonic()

    def advance(_: int) -> None:
        nonlocal last
        last = time.monotonic()

    def connect() -> psycopg.Connection:
        options = f"-c wal_compression={order.get('wal_compression', 'off')}"
        return psycopg.connect(order["conninfo"], options=options, prepare_threshold=None, autocommit=True)

    max_time = order.get("max_time")
    settings = Settings(
        workers=order.get("workers", 1),
        batch_size=order.get("batch_size"),
        max_time=timedelta(seconds=max_time) if max_time else None,
    )
    if order.get("full_speed"):
        settings = settings.at_full_speed()
    totals = engine.run(connect, JOB, settings, advance=advance).totals
    ended = time.monotonic()
    return {"seconds": last - started, "total_s": ended - started, "peak_rss_mb": round(peak_rss_mb(), 1), **totals}


def peak_rss_mb() -> float:
    """Most memory that was resident. Not by getrusage, whose figure a child inherits from the process that made it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS, which counts in bytes
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    print(json.dumps(drive(json.loads(sys.argv[1]))))
