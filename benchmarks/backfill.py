"""How fast `schemactl backfill` is beside one set-based transaction and an ORM loop, and what the application notices.

Prints one JSON object; progress goes to stderr. All variants work on copies of one seeded database, on a server of the
benchmark's own with durable settings, interleaved: each round runs every variant once, and medians are compared.

- `floor`: one transaction that runs the job's own statements over the whole table, with the memory for its sorts.
- `orm`: session by session with SQLAlchemy, a commit per hundred; on a slice of the sessions, compared by its rate.
- `ours_1`, `ours_2`: the engine at full speed with one and two workers, in a process of its own. Seconds are those
  until its last batch has committed; `total_s` adds its sweep and its verification, which no other variant does.
- `memory`: the most that was resident in the process of `ours_1`, at the sizes of --memory-sessions.
- `oltp`: pgbench with a small mix on sessions and kernels at a fixed rate: idle, beside ours at default settings,
  beside ours at full speed, and beside the floor. Latencies are counted from when a transaction was due.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from backfill_orm import orm_loop
from psycopg import sql

from schema.backfill import keyset
from schema.backfill.jobs import kernel_groups_sql as statements
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.migrate import project, runner
from schema.pg.scratch import DURABLE, ScratchServer
from schema.pg.target import Target
from schema.seed import seed

JOB = KernelGroups()
SEEDED = "seeded"
SETTINGS = {
    **DURABLE,
    "checkpoint_timeout": "15min",
    "max_wal_size": "16GB",
    "shared_buffers": "3GB",
    # Its vacuums would be counted as some variant's WAL and seconds. It is on for the latencies.
    "autovacuum": "off",
}
TARGETS = {
    "ours_1_over_floor": 0.95,
    "ours_2_over_floor": 1.6,
    "ours_1_over_orm": 10.0,
    "wal_over_floor": 0.8,
    "p99_default_over_idle": 1.25,
    "max_default_ms": 100.0,
    "peak_rss_mb": 90.0,
    "peak_rss_largest_over_smallest": 1.1,
}
OURS = Path(__file__).with_name("backfill_ours.py")

OLTP_RATE = 150
OLTP_CLIENTS = 4
OLTP_PICK = "\\set n random(1, :sessions)\n"
OLTP_ID = "(SELECT id FROM oltp_session WHERE n = :n)"
OLTP = {
    5: f"{OLTP_PICK}SELECT s.status, k.id, k.status FROM sessions s JOIN kernels k ON k.session_id = s.id"
    f" WHERE s.id = {OLTP_ID};",
    4: f'{OLTP_PICK}UPDATE kernels SET last_stat = \'{{"cpu_util": {{"pct": "1.5"}}}}\', status_changed = now()'
    f" WHERE session_id = {OLTP_ID};",
    2: f"{OLTP_PICK}BEGIN;\nUPDATE sessions SET status_info = 'seen', priority = :n % 20 WHERE id = {OLTP_ID};\n"
    f"UPDATE kernels SET status_changed = now() WHERE session_id = {OLTP_ID};\nEND;",
    1: "WITH s AS (INSERT INTO sessions (name) VALUES ('oltp') RETURNING id), k AS ("
    "INSERT INTO kernels (session_id, environ) SELECT id, '{A=1}' FROM s RETURNING id)"
    " INSERT INTO resource_allocations (kernel_id, slot_name, requested) SELECT id, 'cpu', 1 FROM k;",
}
"""pgbench scripts by weight."""


class Bench:
    """A server with a seeded database and copies of it."""

    def __init__(self, server: ScratchServer, sessions: int, *, index_after: bool) -> None:
        self.server, self.sessions = server, sessions
        url = server.create_database(SEEDED)
        target = Target.parse(url, "the benchmark")
        runner.upgrade(project.Project.open(project.own_config()), target)
        with psycopg.connect(target.conninfo, autocommit=True) as connection:
            seed(connection, sessions=sessions)
            connection.execute(
                "CREATE TABLE oltp_session AS SELECT row_number() OVER (ORDER BY id)::int AS n, id FROM sessions"
            )
            connection.execute("ALTER TABLE oltp_session ADD PRIMARY KEY (n)")
            if index_after:
                connection.execute("DROP INDEX ix_kernels_kernel_group_id")
            with suppress(psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
                connection.execute("CREATE EXTENSION pg_prewarm")
            connection.execute("VACUUM (ANALYZE)")

    def conninfo(self, name: str) -> str:
        return Target.parse(self.server.url(name), "the benchmark").conninfo

    def connect(self, name: str) -> psycopg.Connection:
        return psycopg.connect(self.conninfo(name), prepare_threshold=None)

    def admin(self, statement: str | sql.Composed, values: tuple[object, ...] = ()) -> Any:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchone() if cursor.description else None

    @contextmanager
    def copy(self, name: str) -> Iterator[str]:
        """A copy of the seeded database, read into the server's cache, after a checkpoint; dropped afterwards."""
        self.server.drop_database(name)
        copying = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY = FILE_COPY")
        self.admin(copying.format(sql.Identifier(name), sql.Identifier(SEEDED)))
        try:
            with self.connect(name) as connection:
                warm = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'").fetchone()
                if warm:
                    connection.execute(
                        "SELECT sum(pg_prewarm(oid)) FROM pg_class WHERE relkind IN ('r', 'i', 't')"
                        " AND relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)"
                    )
            self.admin("CHECKPOINT")
            yield name
        finally:
            self.server.drop_database(name)

    def wal(self) -> int:
        return int(self.admin("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")[0])


def whole_table(statement: str) -> str:
    """A batch's statement without its restriction to the batch."""
    text = re.sub(r"\b([a-z]\.)?(session_id|id|ctid) = ANY\(%\((keys|places)\)s::(uuid|tid)\[\]\)", "true", statement)
    kernels = r"kernel_id = ANY\(ARRAY\(SELECT m\.kernel_id FROM member AS m WHERE .*\)\)\n"
    text, count = re.subn(kernels, "true\n", text)
    if "ANY(%(" in text or (statement is statements.WRITE and count != 1):
        raise SystemExit("The job's statements have changed their shape: whole_table() must follow.")
    return text


def floor(bench: Bench, name: str) -> dict[str, float]:
    """One transaction, set-based. Statistics of the new groups come before the link, whose join needs them."""
    with bench.connect(name) as connection:
        before, started = bench.wal(), time.monotonic()
        with connection.transaction():
            connection.execute("SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off; SET LOCAL work_mem = '512MB'")
            run = ledger_row(connection)
            row = connection.execute(whole_table(statements.WRITE), {"run": run}).fetchone()
            connection.execute("ANALYZE kernel_groups")
            linked = connection.execute(whole_table(statements.LINK)).rowcount
        seconds = time.monotonic() - started
    assert row is not None
    return {"seconds": seconds, "wal_bytes": bench.wal() - before, "groups": row[0], "slots": row[1], "linked": linked}


def ledger_row(connection: psycopg.Connection) -> object:
    row = connection.execute(
        "INSERT INTO backfill_runs (job, state) VALUES (%s, 'complete') RETURNING id", (JOB.name,)
    ).fetchone()
    assert row is not None
    return row[0]


def orm(bench: Bench, name: str, count: int) -> dict[str, float]:
    """The loop over the first sessions by id; what it wrote is held against the job's rules."""
    with bench.connect(name) as connection:
        keys = next(keyset.walk(connection, JOB.parent, count))
    before, started = bench.wal(), time.monotonic()
    orm_loop(bench.server.url(name), keys)
    seconds, wal = time.monotonic() - started, bench.wal() - before
    with bench.connect(name) as connection:
        wrong = [f for f in JOB.verify(connection, keys) if f.check != "divergent"]
    if wrong:
        raise SystemExit(f"The ORM loop does not do the same work: {len(wrong)} findings, such as {wrong[0]}")
    return {"seconds": seconds, "wal_bytes": wal, "sessions": len(keys)}


def ours(bench: Bench, name: str, **options: Any) -> dict[str, float]:
    """The engine in a fresh process, as its memory is measured too."""
    before = bench.wal()
    order = json.dumps({"conninfo": bench.conninfo(name), **options})
    done = subprocess.run([sys.executable, str(OURS), order], stdout=subprocess.PIPE, check=True, text=True)
    answer = json.loads(done.stdout)
    return {**answer, "wal_bytes": bench.wal() - before}


def latencies(bench: Bench, name: str, seconds: float, beside: Callable[[], object] | None = None) -> dict[str, float]:
    """Run the mix for some seconds, beside something that goes on as long, and return its latencies in ms."""
    with tempfile.TemporaryDirectory() as folder:
        scripts = []
        for weight, text in OLTP.items():
            script = Path(folder, f"{weight}.sql")
            script.write_text(text)
            scripts += ["-f", f"{script}@{weight}"]
        command = [str(bench.server.installation.client("pgbench")), "-n", "-c", str(OLTP_CLIENTS)]
        command += ["-R", str(OLTP_RATE), "-T", str(int(seconds)), "-D", f"sessions={bench.sessions}"]
        command += ["-l", "--log-prefix", str(Path(folder, "log")), *scripts, bench.conninfo(name)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as pgbench:
            if beside is not None:
                beside()
            _, said = pgbench.communicate()
        if pgbench.returncode:
            raise SystemExit(f"pgbench failed: {said}")
        times = sorted(
            int(line.split()[2]) / 1000 for log in Path(folder).glob("log*") for line in log.read_text().splitlines()
        )
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return {"p50_ms": cuts[49], "p99_ms": cuts[98], "max_ms": times[-1], "transactions": len(times)}


def oltp(bench: Bench, seconds: float, floor_s: float) -> dict[str, dict[str, float]]:
    """One round of latencies."""
    found = {}
    bench.admin("ALTER SYSTEM SET autovacuum = on")
    bench.admin("SELECT pg_reload_conf()")
    with bench.copy("oltp") as name:
        latencies(bench, name, 3)  # the first second of a new database is not the application's usual one
        found["idle"] = latencies(bench, name, seconds)
        for variant, full_speed in (("default", False), ("full_speed", True)):
            found[variant] = latencies(
                bench, name, seconds, lambda full=full_speed: ours(bench, name, full_speed=full, max_time=seconds)
            )
    with bench.copy("oltp") as name:
        # pgbench ends with its last transaction, so one that the floor blocks is seen to its end.
        found["floor"] = latencies(bench, name, max(seconds, floor_s), lambda: floor(bench, name))
    bench.admin("ALTER SYSTEM RESET autovacuum")
    bench.admin("SELECT pg_reload_conf()")
    return found


def memory(server: ScratchServer, sizes: Sequence[int]) -> dict[str, float]:
    """Peak of the engine's memory in MB by the number of sessions; it should not grow with them."""
    found = {}
    for sessions in sizes:
        say(f"memory: seeding {sessions:,} sessions")
        bench = Bench(server, sessions, index_after=False)
        found[str(sessions)] = ours(bench, SEEDED, full_speed=True)["peak_rss_mb"]
        say(f"memory: {found[str(sessions)]:.1f} MB with {sessions:,} sessions")
        server.drop_database(SEEDED)
    return found


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(one[key] for one in rounds), 3) for key in rounds[0]}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return the figures."""
    rates: dict[str, list[dict[str, float]]] = {}
    waits: dict[str, list[dict[str, float]]] = {}
    with ScratchServer(options.pg_bindir, settings=SETTINGS) as server:
        say(f"PostgreSQL {server.installation.version}: seeding {options.sessions:,} sessions")
        bench = Bench(server, options.sessions, index_after=options.index_after)
        extra = {
            "batch_size": options.batch_size,
            "full_speed": True,
            "wal_compression": options.wal_compression,
        }
        variants: dict[str, Callable[[str], dict[str, float]]] = {
            "floor": lambda name: floor(bench, name),
            "ours_1": lambda name: ours(bench, name, workers=1, **extra),
            "ours_2": lambda name: ours(bench, name, workers=2, **extra),
            "orm": lambda name: orm(bench, name, min(options.orm_sessions, options.sessions)),
        }
        for number in range(options.rounds):
            for variant, run in variants.items():
                with bench.copy(variant) as name:
                    result = run(name)
                result["sessions_per_second"] = result.get("sessions", options.sessions) / result["seconds"]
                rates.setdefault(variant, []).append(result)
                say(f"round {number + 1} {variant}: {result['sessions_per_second']:,.0f} sessions/s")
            written = {tuple(rates[v][-1][key] for key in ("groups", "slots", "linked")) for v in list(variants)[:3]}
            if len(written) != 1:
                raise SystemExit(f"The variants did not write the same: {written}")
        floor_s = statistics.median(one["seconds"] for one in rates["floor"])
        for number in range(options.rounds if options.oltp_seconds else 0):
            for variant, result in oltp(bench, options.oltp_seconds, floor_s).items():
                waits.setdefault(variant, []).append(result)
                say(f"round {number + 1} oltp {variant}: p99 {result['p99_ms']:.1f} ms, max {result['max_ms']:.0f} ms")
        server.drop_database(SEEDED)
        sizes = memory(server, options.memory_sessions)
        version = server.installation.version
    found = {variant: medians(rounds) for variant, rounds in rates.items()}
    beside = {variant: medians(rounds) for variant, rounds in waits.items()}
    ratios = {
        "ours_1_over_floor": found["ours_1"]["sessions_per_second"] / found["floor"]["sessions_per_second"],
        "ours_2_over_floor": found["ours_2"]["sessions_per_second"] / found["floor"]["sessions_per_second"],
        "ours_1_over_orm": found["ours_1"]["sessions_per_second"] / found["orm"]["sessions_per_second"],
        "wal_over_floor": found["ours_1"]["wal_bytes"] / found["floor"]["wal_bytes"],
        "peak_rss_mb": max(*(found[variant]["peak_rss_mb"] for variant in ("ours_1", "ours_2")), *sizes.values()),
    }
    if sizes:
        ratios["peak_rss_largest_over_smallest"] = max(sizes.values()) / min(sizes.values())
    if beside:
        ratios["p99_default_over_idle"] = beside["default"]["p99_ms"] / beside["idle"]["p99_ms"]
        ratios["max_default_ms"] = beside["default"]["max_ms"]
        ratios["max_floor_ms"] = beside["floor"]["max_ms"]
    return {
        "postgresql": version,
        "sessions": options.sessions,
        "rounds": options.rounds,
        "batch_size": options.batch_size or "the engine's",
        "index_after": options.index_after,
        "orm_note": f"on the first {found['orm']['sessions']:.0f} sessions by id; its rate is compared",
        "server": SETTINGS,
        "wal_compression_of_ours": options.wal_compression,
        "rates": found,
        "rates_by_round": {v: [round(one["sessions_per_second"], 1) for one in r] for v, r in rates.items()},
        "peak_rss_mb_by_sessions": sizes,
        "oltp": {"transactions_per_second": OLTP_RATE, "clients": OLTP_CLIENTS, **beside} if beside else None,
        "ratios": {name: judged(name, value) for name, value in ratios.items()},
    }


def judged(name: str, value: float) -> dict[str, object]:
    target = TARGETS.get(name)
    if target is None:
        return {"value": round(value, 3)}
    reached = value >= target if name.startswith("ours_") else value <= target
    return {"value": round(value, 3), "target": target, "reached": reached}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--orm-sessions", type=int, default=2000, help="How many of them the ORM loop does.")
    parser.add_argument("--batch-size", type=int, help="Fixed size of ours; by default what the engine chooses.")
    parser.add_argument("--oltp-seconds", type=float, default=12, help="Of each latency measurement; 0 for none.")
    parser.add_argument(
        "--memory-sessions",
        type=int,
        nargs="*",
        default=[10_000, 100_000],
        help="Sizes at which the memory is measured; 10000 100000 1000000 for the whole range.",
    )
    parser.add_argument("--wal-compression", default="off", help="Of the connections of ours.")
    parser.add_argument("--index-after", action="store_true", help="Without the index on kernels.kernel_group_id.")
    parser.add_argument("--pg-bindir", type=Path, help="Programs of another PostgreSQL than the wheel's.")
    options = parser.parse_args()
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "load_1m": round(os.getloadavg()[0], 1)}
    started = time.monotonic()
    result = measure(options)
    head = {"benchmark": "backfill", "python": sys.version.split()[0], **machine}
    print(json.dumps({**head, "seconds": round(time.monotonic() - started), **result}, indent=2))


if __name__ == "__main__":
    main()
