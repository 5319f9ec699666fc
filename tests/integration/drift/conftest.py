"""The twelve-table schema that the drift cases change, on each server."""

import importlib.util
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from schema.drift.judge import Judge
from schema.pg.catalog import Snapshot, read_snapshot

DATA = Path(__file__).parents[2] / "data" / "drift"
ROLES = ("app_ro", "app_rw", "other_owner")


def baseline_models() -> ModuleType:
    if "drift_baseline_models" not in sys.modules:
        spec = importlib.util.spec_from_file_location("drift_baseline_models", DATA / "baseline_models.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["drift_baseline_models"] = module
        spec.loader.exec_module(module)
    return sys.modules["drift_baseline_models"]


def admin(url: str) -> psycopg.Connection:
    parts = sa.make_url(url).set(database="postgres")
    return psycopg.connect(parts.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True)


def plain(url: str) -> str:
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def clone(url: str, template: str) -> str:
    """A fresh copy of a database; returns its URL."""
    name = f"drift_{uuid.uuid4().hex[:12]}"
    with admin(url) as server:
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
    return sa.make_url(url).set(database=name).render_as_string(hide_password=False)


def drop(url: str) -> None:
    with admin(url) as server:
        name = sql.Identifier(str(sa.make_url(url).database))
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture(scope="session")
def baseline(major: str, server_url: str) -> Iterator[str]:
    """URL of a database that nobody connects to: the template."""
    with admin(server_url) as server:
        for role in ROLES:
            exists = server.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
            if exists is None:
                try:
                    server.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
                except psycopg.errors.UniqueViolation:
                    pass  # another worker was faster
    url = clone(server_url, "template0")
    engine = sa.create_engine(url)
    baseline_models().metadata.create_all(engine)
    engine.dispose()
    yield url
    drop(url)


@pytest.fixture
def database(baseline: str) -> Iterator[str]:
    """URL of a fresh copy of the baseline."""
    url = clone(baseline, str(sa.make_url(baseline).database))
    yield url
    drop(url)


@pytest.fixture(scope="session")
def workshop(baseline: str) -> Iterator[str]:
    """URL of a copy of the baseline in which every change is rolled back."""
    url = clone(baseline, str(sa.make_url(baseline).database))
    yield url
    drop(url)


@pytest.fixture(scope="session")
def baseline_snapshot(workshop: str) -> Snapshot:
    with psycopg.connect(plain(workshop)) as connection:
        return read_snapshot(connection)


@pytest.fixture(scope="session")
def judge(baseline: str, workshop: str) -> Iterator[Judge]:
    url = clone(baseline, str(sa.make_url(workshop).database))
    with psycopg.connect(plain(url)) as connection:
        yield Judge(connection)
    drop(url)
