"""The twelve-table schema that the drift cases change, on each server."""

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from schema.drift.judge import Judge
from schema.pg.catalog import Snapshot, read_snapshot
from tests.conftest import Server
from tests.support.drift import ROLES, admin, baseline_models, clone, drop, plain


@pytest.fixture(scope="session")
def baseline(server: Server) -> Iterator[str]:
    """URL of a database that nobody connects to: the template."""
    with admin(server.url("postgres")) as connection:
        for role in ROLES:
            exists = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
            if exists is None:
                try:
                    connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
                except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
                    pass  # another worker was faster
    url = clone(server.url("postgres"), "template0")
    engine = sa.create_engine(url)
    baseline_models().metadata.create_all(engine)
    engine.dispose()
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
def judge(baseline: str) -> Iterator[Judge]:
    url = clone(baseline, str(sa.make_url(baseline).database))
    with psycopg.connect(plain(url)) as connection:
        yield Judge(lambda: connection)
    drop(url)
