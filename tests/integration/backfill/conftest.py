"""A cluster to backfill: rows written and read in the words of tests/data/backfill_cases.json."""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from schema.backfill import engine, survey
from schema.backfill.job import Job
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.settings import Settings

JOB = KernelGroups()
CASES = json.loads((Path(__file__).parents[2] / "data" / "backfill_cases.json").read_text())["cases"]


def image_id(name: str) -> UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, name)


@dataclass(frozen=True)
class Cluster:
    connection: psycopg.Connection
    url: str
    connect: Callable[..., psycopg.Connection]

    def insert(self, table: str, /, **columns: Any) -> UUID:
        values = [Jsonb(value) if isinstance(value, dict) else value for value in columns.values()]
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        places = sql.SQL(", ").join([sql.Placeholder()] * len(columns))
        statement = sql.SQL(
            "INSERT INTO {} ({}) VALUES ({}) RETURNING id" if columns else "INSERT INTO {} DEFAULT VALUES RETURNING id"
        )
        return self.connection.execute(statement.format(sql.Identifier(table), names, places), values).fetchone()[0]

    def session(self, **columns: Any) -> UUID:
        return self.insert("sessions", **columns)

    def kernel(
        self, session: UUID, role: str = "main", *, allocations: Mapping[str, str] | None = None, **columns: Any
    ) -> UUID:
        kernel = self.insert("kernels", session_id=session, cluster_role=role, **columns)
        for slot, quantity in (allocations or {}).items():
            self.connection.execute(
                "INSERT INTO resource_allocations (kernel_id, slot_name, requested) VALUES (%s, %s, %s)",
                (kernel, slot, quantity),
            )
        return kernel

    def load(self, case: Mapping[str, Any]) -> UUID:
        """Insert a session and kernels written as in the cases; return the session's id."""
        session = self.session(**case["session"])
        for kernel in case["kernels"]:
            columns = dict(kernel)
            role = columns.pop("cluster_role", "main")
            if columns.get("image_id") is not None:
                columns["image_id"] = image_id(columns["image_id"])
            self.kernel(session, role, **columns)
        return session

    def group(
        self,
        session: UUID,
        role: str = "main",
        *,
        slots: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        **columns: Any,
    ) -> UUID:
        """Insert a group as an application would."""
        group = self.insert("kernel_groups", session_id=session, role=role, **columns)
        for slot, quantity in (slots or {}).items():
            self.insert("kernel_group_resource_slots", kernel_group_id=group, slot_name=slot, quantity=quantity)
        for key, value in (environ or {}).items():
            self.connection.execute(
                "INSERT INTO kernel_group_environ (kernel_group_id, key, value) VALUES (%s, %s, %s)",
                (group, key, value),
            )
        return group

    def groups(self, session: UUID) -> list[dict[str, Any]]:
        """The session's groups, in the words of the cases, by role."""
        rows = self.connection.execute(
            """
            SELECT role, image_id, shmem, startup_command, preopen_ports,
                   to_char(requested_starts_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), batch_timeout_sec,
                   (SELECT coalesce(jsonb_object_agg(slot_name, quantity::text), '{}')
                    FROM kernel_group_resource_slots WHERE kernel_group_id = g.id),
                   (SELECT coalesce(jsonb_object_agg(key, value), '{}')
                    FROM kernel_group_environ WHERE kernel_group_id = g.id),
                   (SELECT count(*) FROM kernels WHERE kernel_group_id = g.id)
            FROM kernel_groups AS g WHERE session_id = %s ORDER BY role COLLATE "C"
            """,
            (session,),
        )
        return [
            {
                "role": role,
                "image_id": image,
                "shmem": shmem,
                "startup_command": command,
                "preopen_ports": ports,
                "requested_starts_at": starts and starts.removesuffix(".000000") + "Z",
                "batch_timeout_sec": timeout,
                "slots": {name: Decimal(quantity) for name, quantity in slots.items()},
                "environ": environ,
                "kernels": kernels,
            }
            for role, image, shmem, command, ports, starts, timeout, slots, environ, kernels in rows
        ]

    def rejects(self, session: UUID) -> list[str]:
        """Fields of the session's rejects, sorted."""
        rows = self.connection.execute("SELECT field FROM backfill_rejects WHERE session_id = %s", (session,))
        return sorted(row[0] for row in rows)

    def everything(self) -> list[Any]:
        """All that a backfill writes, without what differs from run to run: ids of groups, and times."""
        return [
            self.connection.execute(statement).fetchall()
            for statement in (
                "SELECT session_id, role, image_id, shmem, startup_command, preopen_ports, requested_starts_at,"
                " batch_timeout_sec FROM kernel_groups ORDER BY 1, 2",
                "SELECT session_id, role, slot_name, quantity FROM kernel_group_resource_slots s"
                " JOIN kernel_groups g ON g.id = s.kernel_group_id ORDER BY 1, 2, 3",
                "SELECT session_id, role, key, value FROM kernel_group_environ s"
                " JOIN kernel_groups g ON g.id = s.kernel_group_id ORDER BY 1, 2, 3",
                "SELECT k.id, g.session_id, g.role FROM kernels k LEFT JOIN kernel_groups g ON g.id = k.kernel_group_id"
                " ORDER BY 1",
                "SELECT session_id, kernel_id, field, reason, raw FROM backfill_rejects ORDER BY 1, 2, 3, 4, 5",
            )
        ]

    def run(self, job: Job = JOB, *, watch: Mapping[str, Any] | None = None, **settings: Any) -> engine.Outcome:
        """Run a job without rests; `watch` holds callbacks of `engine.run`, the rest are settings."""
        quick = {"duty": 1.0, "older_wait": timedelta(seconds=1), **settings}
        return engine.run(self.connect, job, Settings(**quick), **(watch or {}))

    def findings(self) -> list[tuple[str, bool]]:
        """Names of what a verification finds, and whether it fails."""
        return [(finding.check, finding.fails) for finding in survey.verify(self.connection, JOB).findings]

    def failures(self) -> list[Any]:
        return [finding for finding in survey.verify(self.connection, JOB).findings if finding.fails]


def expected(group: Mapping[str, Any]) -> dict[str, Any]:
    """A case's group as `Cluster.groups` gives it."""
    return {
        **group,
        "image_id": group["image_id"] and image_id(group["image_id"]),
        "slots": {name: Decimal(quantity) for name, quantity in group["slots"].items()},
    }


@pytest.fixture
def connect(head_database: str) -> Iterator[Callable[..., psycopg.Connection]]:
    """Opens autocommit connections to the test's database; all are closed afterwards."""
    opened: list[psycopg.Connection] = []

    def make() -> psycopg.Connection:
        conninfo = head_database.replace("postgresql+psycopg://", "postgresql://")
        opened.append(psycopg.connect(conninfo, autocommit=True, prepare_threshold=None))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


@pytest.fixture
def cluster(head_database: str, connect: Callable[..., psycopg.Connection]) -> Cluster:
    """An empty cluster with the images and slot types that the cases name."""
    connection = connect()
    connection.execute(
        "INSERT INTO resource_slot_types (slot_name, slot_type) VALUES ('cpu', 'count'), ('mem', 'bytes'),"
        " ('cuda.device', 'count'), ('cuda.shares', 'count'), ('tpu.device', 'count') ON CONFLICT DO NOTHING"
    )
    for name in ("image-1", "image-2"):
        connection.execute(
            "INSERT INTO images (id, name, project, registry, tag) VALUES (%s, %s, 'p', 'r', 't')",
            (image_id(name), name),
        )
    return Cluster(connection, head_database, connect)


@dataclass(frozen=True)
class Operator:
    """A role of its own, with every privilege on the tables and in pg_monitor."""

    role: str
    url: str
    admin: psycopg.Connection

    def change(self, statement: str) -> None:
        """Run a statement on the role, whose name stands for `{}`, as a superuser."""
        self.admin.execute(sql.SQL(statement).format(sql.Identifier(self.role)))

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True, prepare_threshold=None)


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[Operator]:
    """The role that runs the backfill."""
    role = f"operator_{cluster.connection.info.dbname}"
    made = Operator(role, cluster.url.replace("postgres@", f"{role}@"), cluster.connection)
    made.change("CREATE ROLE {} LOGIN")
    try:
        made.change("GRANT ALL ON ALL TABLES IN SCHEMA public TO {}")
        made.change("GRANT pg_monitor TO {}")
        yield made
    finally:
        made.change("DROP OWNED BY {}")
        made.change("DROP ROLE {}")


@pytest.fixture
def cases() -> list[dict[str, Any]]:
    """The worked cases, their groups as `Cluster.groups` gives them."""
    return [{**case, "groups": [expected(group) for group in case["groups"]]} for case in CASES]
