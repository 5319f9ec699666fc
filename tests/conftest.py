"""Fixtures of the whole suite."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

SERVERS = {"18": ("/tmp/dev18", 5418), "15": ("/tmp/dev15", 5415)}


def _url(major: str, name: str) -> str:
    host, port = SERVERS[major]
    return f"postgresql+psycopg://postgres@/{name}?host={host}&port={port}"


def _admin(major: str) -> psycopg.Connection:
    host, port = SERVERS[major]
    return psycopg.connect(host=host, port=port, user="postgres", dbname="postgres", autocommit=True)


@pytest.fixture(scope="session", params=["18", "15"])
def major(request: pytest.FixtureRequest) -> str:
    """Major version of the server; each test that needs a server runs once per major."""
    return str(request.param)


def _create(major: str, template: str) -> str:
    name = f"t_{uuid.uuid4().hex[:12]}"
    with _admin(major) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
    return name


def _drop(major: str, name: str) -> None:
    with _admin(major) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def empty_database(major: str) -> Iterator[str]:
    """URL of a fresh, empty database."""
    name = _create(major, "template0")
    yield _url(major, name)
    _drop(major, name)


@pytest.fixture(scope="session")
def head_template(major: str) -> Iterator[str]:
    """Name of a template database at head."""
    from schema.models import metadata

    name = _create(major, "template0")
    engine = sa.create_engine(_url(major, name))
    metadata.create_all(engine)
    engine.dispose()
    yield name
    _drop(major, name)


@pytest.fixture
def head_database(major: str, head_template: str) -> Iterator[str]:
    """URL of a fresh database at head, cloned from the template."""
    name = _create(major, head_template)
    yield _url(major, name)
    _drop(major, name)
