"""Drives the backfill engine for `backfill.py`, in a process that imports nothing else, so that its memory is ours.

The argument is a JSON object: `conninfo`, and maybe `workers`, `batch_size`, `full_speed`, `wal_compression`, and
`max_time` in seconds.
"""

import dataclasses
import inspect
import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from schema.backfill import engine, keyset, ledger
from schema.backfill.jobs.kernel_groups import KernelGroups

JOB = KernelGroups()


def drive(order: Mapping[str, Any]) -> dict[str, float]:
    """Drive the engine; report the seconds up to its last batch and in all, and the most memory that was resident."""
    last = started = time.monotonic()

    def advance(_: int) -> None:
        nonlocal last
        last = time.monotonic()

    def connect(*, primary: bool = False) -> psycopg.Connection:  # noqa: ARG001
        options = f"-c wal_compression={order.get('wal_compression', 'off')}"
        return psycopg.connect(order["conninfo"], options=options, prepare_threshold=None, autocommit=True)

    workers, max_time = order.get("workers", 1), order.get("max_time")
    known = {f.name for f in dataclasses.fields(engine.Settings)}
    wanted = {"workers": workers, "max_time": timedelta(seconds=max_time) if max_time else None}
    settings = engine.Settings(**{name: value for name, value in wanted.items() if name in known})
    if order.get("full_speed") and hasattr(settings, "at_full_speed"):
        settings = settings.at_full_speed()
    if size := order.get("batch_size"):
        settings = dataclasses.replace(settings, batch_size=size)
    run: Any = engine.run
    if "connect" in inspect.signature(run).parameters:
        totals = run(connect, JOB, settings, advance=advance).totals
    elif workers == 1:
        with connect() as connection:
            totals = run(connection, JOB, settings, advance=advance).totals
    else:
        totals = halves(connect, settings.batch_size, advance)
    ended = time.monotonic()
    return {"seconds": last - started, "total_s": ended - started, "peak_rss_mb": round(peak_rss_mb(), 1), **totals}


def peak_rss_mb() -> float:
    """Most memory that was resident. Not by getrusage, whose figure a child inherits from the process that made it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS, which counts in bytes
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def halves(connect: Callable[[], psycopg.Connection], size: int, advance: Callable[[int], None]) -> dict[str, int]:
    """Two connections over the two halves of the keys, for an engine that has one worker only."""
    totals: dict[str, int] = {}
    with connect() as control:
        run_id = ledger.begin(control, JOB.name, {}).id
        row = control.execute(
            "SELECT id::text FROM sessions ORDER BY id OFFSET (SELECT count(*) / 2 FROM sessions) LIMIT 1"
        ).fetchone()
        middle = row[0] if row else None

    def work(after: str | None, upto: str | None) -> None:
        with connect() as connection:
            while True:
                with connection.transaction():
                    connection.execute("SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off")
                    keys = keyset.lock(connection, JOB.parent, after, upto, size)
                    written = JOB.write(connection, run_id, keys) if keys else {}
                for name, value in written.items():
                    totals[name] = totals.get(name, 0) + value
                advance(len(keys))
                if len(keys) < size:
                    return
                after = str(keys[-1])

    threads = [threading.Thread(target=work, args=bounds) for bounds in ((None, middle), (middle, None))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return totals


if __name__ == "__main__":
    print(json.dumps(drive(json.loads(sys.argv[1]))))
