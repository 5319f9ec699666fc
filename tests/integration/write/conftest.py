"""A cluster to enqueue to: owners, an image for two architectures, slot types, an endpoint."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from schema.identity import EndpointID, GroupID
from schema.spec.session import GroupSpec, SessionSpec

IMAGE = "cr.example.com:5000/stable/python:3.13"
SLOTS = ("cpu", "mem", "cuda.device", "cuda.shares")


@dataclass(frozen=True)
class Cluster:
    engine: sa.Engine
    url: str
    group_id: GroupID
    endpoint_id: EndpointID
    images: dict[str, UUID]
    """Architecture to image."""

    def rows(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement), parameters)]

    def run(self, statement: str, **parameters: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement), parameters)

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])

    def counts(self) -> dict[str, int]:
        return {table: self.count(table) for table in TABLES}


TABLES = (
    "sessions",
    "kernel_groups",
    "kernel_group_resource_slots",
    "kernel_group_environ",
    "kernels",
    "resource_allocations",
    "session_dependencies",
    "bootstrap_script_revisions",
)


def make_cluster(url: str, engine: sa.Engine) -> Cluster:
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO resource_slot_types (slot_name, slot_type) SELECT unnest(CAST(:names AS text[])), 'count'"
                " ON CONFLICT DO NOTHING"
            ),
            {"names": list(SLOTS)},
        )
        connection.execute(sa.text("INSERT INTO domains (name) VALUES ('default')"))
        group = connection.execute(
            sa.text("INSERT INTO groups (name, domain_name) VALUES ('p', 'default') RETURNING id")
        ).scalar_one()
        connection.execute(sa.text("INSERT INTO scaling_groups (name) VALUES ('pool')"))
        endpoint = connection.execute(sa.text("INSERT INTO endpoints (name) VALUES ('e') RETURNING id")).scalar_one()
        images = connection.execute(
            sa.text(
                "INSERT INTO images (registry, project, name, tag, architecture)"
                " SELECT 'cr.example.com:5000', 'stable', 'python', '3.13', unnest(ARRAY['x86_64', 'aarch64'])"
                " RETURNING architecture, id"
            )
        )
        return Cluster(
            engine,
            url,
            GroupID(int=group.int),
            EndpointID(int=endpoint.int),
            {row.architecture: row.id for row in images},
        )


@pytest.fixture
def cluster(head_database: str) -> Iterator[Cluster]:
    # What waits for a lock that it should not wait for is to fail, and not to hang.
    engine = sa.create_engine(
        head_database, hide_parameters=True, pool_size=10, connect_args={"options": "-c lock_timeout=15s"}
    )
    try:
        yield make_cluster(head_database, engine)
    finally:
        engine.dispose()


def make_group(role: str = "main", **fields: Any) -> GroupSpec:
    return GroupSpec(**{"role": role, "image": IMAGE, "architecture": "x86_64", **fields})


def make_session(*groups: GroupSpec, **fields: Any) -> SessionSpec:
    return SessionSpec(groups=groups or (make_group(resource_slots={"cpu": 1, "mem": "1g"}),), **fields)


@pytest.fixture
def group() -> Callable[..., GroupSpec]:
    return make_group


@pytest.fixture
def session() -> Callable[..., SessionSpec]:
    return make_session
