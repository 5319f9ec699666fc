"""Enqueue and purge against the same work written by hand, and the merge of a draft: ratios as JSON.

    python benchmarks/enqueue.py [--rounds 30] [--sessions 2000]

Runs on a server of its own that writes to the disk as a real one does. Rounds are interleaved, medians are taken.
"""

import argparse
import hashlib
import json
import statistics
import time
import timeit
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from schema.migrate.project import Project, find_config
from schema.migrate.runner import upgrade
from schema.pg.scratch import DURABLE, ScratchServer
from schema.pg.target import Target
from schema.spec.definition import ServiceDefinition
from schema.spec.draft import RevisionDraft, RuntimeVariant
from schema.spec.generator import GENERATORS
from schema.spec.session import GroupSpec, SessionSpec
from schema.write.enqueue import enqueue
from schema.write.purge import purge

IMAGE = ("registry.example.com", "stable", "python", "3.13", "x86_64")
CANONICAL = "registry.example.com/stable/python:3.13"
ENVIRON = {f"VARIABLE_{n}": f"value {n}" for n in range(10)}
SLOTS = {"cpu": Decimal(2), "mem": Decimal(4 * 1024**3), "cuda.device": Decimal(1)}
REPLICAS = {"main": 1, "worker": 66, "ps": 33}
SCRIPT = "#!/bin/sh\necho start\n"
ENDED = datetime(2026, 1, 1, tzinfo=UTC)


def spec() -> SessionSpec:
    return SessionSpec(
        domain_name="default",
        scaling_group_name="pool",
        groups=tuple(
            GroupSpec(
                role=role, replicas=replicas, image=CANONICAL, architecture="x86_64", resource_slots=SLOTS,
                shmem=64 * 1024**2, environ=ENVIRON, startup_command="run", bootstrap_script=SCRIPT,
                preopen_ports=(8000, 8001),
            )
            for role, replicas in REPLICAS.items()
        ),
    )  # fmt: skip


def by_hand(connection: psycopg.Connection, image: uuid.UUID, *, copy: bool) -> None:
    """The same rows, as one writes them: ids made here, one multi-row INSERT or COPY per table."""
    with connection.transaction():
        cursor = connection.cursor()
        session = uuid.uuid4()
        cursor.execute(
            "INSERT INTO sessions (id, cluster_size, domain_name, scaling_group_name)"
            " VALUES (%s, 100, 'default', 'pool')",
            (session,),
        )
        digest = hashlib.sha256(SCRIPT.encode()).hexdigest()
        cursor.execute(
            "INSERT INTO bootstrap_script_revisions (digest, script) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            (digest, SCRIPT),
        )
        cursor.execute("SELECT id FROM bootstrap_script_revisions WHERE digest = %s", (digest,))
        row = cursor.fetchone()
        assert row is not None
        groups = {role: uuid.uuid4() for role in REPLICAS}
        entries = [f"{key}={value}" for key, value in sorted(ENVIRON.items())]
        kernels = [
            (uuid.uuid4(), session, 100, role, n, n, f"{role}{n}", "pool", "default", CANONICAL, image, "x86_64",
             IMAGE[0], entries, json.dumps({"shmem": 64 * 1024**2}), [8000, 8001], "run", SCRIPT, groups[role])
            for role, replicas in REPLICAS.items()
            for n in range(replicas)
        ]  # fmt: skip
        tables: list[tuple[str, str, list[tuple[Any, ...]]]] = [
            (
                "kernel_groups",
                "id, session_id, role, image_id, shmem, startup_command, preopen_ports, bootstrap_script_revision_id",
                [(g, session, r, image, 64 * 1024**2, "run", [8000, 8001], row[0]) for r, g in groups.items()],
            ),
            (
                "kernel_group_resource_slots",
                "kernel_group_id, slot_name, quantity",
                [(g, name, quantity) for g in groups.values() for name, quantity in SLOTS.items()],
            ),
            (
                "kernel_group_environ",
                "kernel_group_id, key, value",
                [(g, key, value) for g in groups.values() for key, value in ENVIRON.items()],
            ),
            (
                "kernels",
                "id, session_id, cluster_size, cluster_role, cluster_idx, local_rank, cluster_hostname, scaling_group,"
                " domain_name, image, image_id, architecture, registry, environ, resource_opts, preopen_ports,"
                " startup_command, bootstrap_script, kernel_group_id",
                kernels,
            ),
            (
                "resource_allocations",
                "kernel_id, slot_name, requested",
                [(kernel[0], name, quantity) for kernel in kernels for name, quantity in SLOTS.items()],
            ),
        ]
        for table, columns, rows in tables:
            if copy:
                with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as stream:
                    for values in rows:
                        stream.write_row(values)
            else:
                places = f"({', '.join(['%s'] * len(rows[0]))})"
                cursor.execute(
                    f"INSERT INTO {table} ({columns}) VALUES {', '.join([places] * len(rows))}",
                    [value for values in rows for value in values],
                )


DELETE_CHAIN = """
    CREATE TEMP TABLE doomed ON COMMIT DROP AS SELECT id FROM sessions WHERE terminated_at < %(before)s;
    DELETE FROM kernels WHERE session_id IN (SELECT id FROM doomed);
    DELETE FROM kernel_group_resource_slots WHERE kernel_group_id IN
        (SELECT g.id FROM kernel_groups AS g JOIN doomed AS d ON d.id = g.session_id);
    DELETE FROM kernel_groups WHERE session_id IN (SELECT id FROM doomed);
    DELETE FROM sessions WHERE id IN (SELECT id FROM doomed);
"""


def measure_enqueue(engine: sa.Engine, connection: psycopg.Connection, rounds: int) -> dict[str, Any]:
    prepared = spec()
    image = connection.execute("SELECT id FROM images").fetchone()
    connection.commit()
    assert image is not None
    seen: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    times: dict[str, list[float]] = {"enqueue": [], "insert": [], "copy": []}
    with engine.connect() as ours:

        def enqueued() -> None:
            with ours.begin():
                enqueue(ours, prepared)

        works: dict[str, Callable[[], None]] = {
            "enqueue": enqueued,
            "insert": lambda: by_hand(connection, image[0], copy=False),
            "copy": lambda: by_hand(connection, image[0], copy=True),
        }
        for number in range(rounds + 2):
            for name, work in works.items():
                seen.clear()
                started = time.perf_counter()
                work()
                if number >= 2:
                    times[name].append(time.perf_counter() - started)
                if name == "enqueue":
                    statements = len(seen)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "groups": len(REPLICAS),
        "kernels": sum(REPLICAS.values()),
        "milliseconds": {name: round(value * 1000, 2) for name, value in medians.items()},
        "enqueue_to_insert": round(medians["enqueue"] / medians["insert"], 2),
        "enqueue_to_copy": round(medians["enqueue"] / medians["copy"], 2),
        # With BEGIN and COMMIT.
        "round_trips": statements + 2,
    }


def fill(engine: sa.Engine, sessions: int) -> None:
    """Ended sessions of three kernels in two groups."""
    group = {"image": CANONICAL, "architecture": "x86_64", "resource_slots": SLOTS, "environ": ENVIRON}
    small = SessionSpec(groups=(GroupSpec(role="main", **group), GroupSpec(role="worker", replicas=2, **group)))
    with engine.begin() as connection:
        for _ in range(sessions):
            enqueue(connection, small)
        connection.execute(sa.text("UPDATE sessions SET status = 'TERMINATED', terminated_at = :at"), {"at": ENDED})
        connection.execute(sa.text("UPDATE kernels SET status = 'TERMINATED'"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))


def measure_purge(engine: sa.Engine, connection: psycopg.Connection, sessions: int, rounds: int) -> dict[str, Any]:
    before = ENDED + timedelta(days=1)

    def chain() -> None:
        with connection.transaction():
            for statement in DELETE_CHAIN.split(";")[:-1]:
                connection.execute(statement, {"before": before} if "%(before)s" in statement else None)

    works: dict[str, Callable[[], object]] = {"purge": lambda: purge(engine, before), "chain": chain}
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name in sorted(works, reverse=bool(number % 2)):
            fill(engine, sessions)
            started = time.perf_counter()
            works[name]()
            # The first round only warms the caches of both connections.
            if number:
                times[name].append(time.perf_counter() - started)
    rates = {name: sessions / statistics.median(values) for name, values in times.items()}
    return {
        "sessions": sessions,
        "per_second": {name: round(rate) for name, rate in rates.items()},
        "purge_to_chain": round(rates["purge"] / rates["chain"], 2),
    }


def measure_merge() -> dict[str, float]:
    draft = RevisionDraft(
        image=CANONICAL, architecture="x86_64", resource_slots={"cpu": "1", "mem": "4g", "cuda.device": 1},
        environ=ENVIRON, startup_command="serve", preopen_ports=(8000,), cluster_size=2,
    )  # fmt: skip
    definition = ServiceDefinition.parse(
        b'[environment]\nimage = "a/b/c:d"\n[resource_slots]\ncpu = 2\n[environ]\nVARIABLE_1 = "x"\nA = "1"\n'
        b'[vllm.environ]\nB = "1"\n[vllm.resource_opts]\nshmem = "1g"\n'
    )
    generator = GENERATORS[RuntimeVariant.VLLM]
    seconds = timeit.repeat(lambda: generator.generate(draft, definition), number=2000, repeat=5)
    return {"load_merge_validate_microseconds": round(statistics.median(seconds) / 2000 * 1e6, 1)}


def measure(target: Target, arguments: argparse.Namespace) -> dict[str, Any]:
    with psycopg.connect(target.conninfo) as connection:
        # With a pool, unlike the commands' engine: what is measured is not how long a connection takes.
        engine = sa.create_engine(target.url, connect_args={"prepare_threshold": None})
        with engine.begin() as setup:
            setup.execute(sa.text("INSERT INTO domains (name) VALUES ('default')"))
            setup.execute(sa.text("INSERT INTO scaling_groups (name) VALUES ('pool')"))
            setup.execute(
                sa.text("INSERT INTO images (registry, project, name, tag, architecture) VALUES (:a, :b, :c, :d, :e)"),
                dict(zip("abcde", IMAGE, strict=True)),
            )
        result = {
            "server": connection.info.server_version,
            "enqueue": measure_enqueue(engine, connection, arguments.rounds),
            "merge": measure_merge(),
        }
        connection.execute("TRUNCATE sessions, kernels, kernel_groups, kernel_group_resource_slots CASCADE")
        connection.commit()
        result["purge"] = measure_purge(engine, connection, arguments.sessions, arguments.purges)
        engine.dispose()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-bindir", type=Path, help="Programs of another PostgreSQL than the wheel's.")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--purges", type=int, default=5)
    arguments = parser.parse_args()
    with ScratchServer(arguments.pg_bindir, settings=DURABLE) as server:
        target = Target.parse(server.create_database("benchmark"), "the benchmark")
        upgrade(Project.open(find_config(None)), target)
        print(json.dumps(measure(target, arguments), indent=2))


if __name__ == "__main__":
    main()
