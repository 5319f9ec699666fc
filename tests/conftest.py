"""Fixtures of the whole suite: throw-away servers of two majors, and databases cloned from templates.

PostgreSQL 18 is the wheel's; 15 is the one that Debian installs, or any in SCHEMACTL_TEST_BINDIRS (folders of
programs, with `:` between them). A server is started when the first test needs it; with pytest-xdist the controller
starts them all, once, and the workers share them.
"""

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from pytest_postgresql.janitor import DatabaseJanitor

from schema.pg.binaries import find_installation
from schema.pg.connect import connect
from schema.pg.scratch import ScratchServer
from schema.pg.target import Target
from tests.support.recycled import Recycled

ROOT = Path(__file__).parents[1]
EMBEDDED = "18"


def _installed() -> dict[str, Path]:
    """Folders of the installed servers to test on, by major."""
    given = os.environ.get("SCHEMACTL_TEST_BINDIRS", "/usr/lib/postgresql/15/bin")
    folders = [Path(folder) for folder in given.split(os.pathsep) if folder]
    return {find_installation(folder).major: folder for folder in folders if (folder / "initdb").exists()}


INSTALLED = _installed()
MAJORS = [EMBEDDED, *sorted({"15", *INSTALLED} - {EMBEDDED}, reverse=True)]


@dataclass(frozen=True)
class Server:
    """How to reach a test server."""

    major: str
    host: str
    port: int
    user: str
    bindir: Path

    def url(self, dbname: str) -> str:
        """URL of a database."""
        query = {"host": self.host, "port": str(self.port)}
        return sa.URL.create("postgresql+psycopg", self.user, database=dbname, query=query).render_as_string(False)


STACK = pytest.StashKey[ExitStack]()
SERVERS = pytest.StashKey[dict[str, Server]]()


def pytest_configure(config: pytest.Config) -> None:
    for name in list(os.environ):
        # What the person's shell says about their own databases is nothing to the tests.
        if name.startswith("PG") or name in ("SCHEMACTL_URL", "DATABASE_URL", "SCHEMACTL_STATE_DIR", "ALEMBIC_CONFIG"):
            del os.environ[name]
    # Tests edit a revision and run it again within the second that a cached bytecode file would take for the same.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    config.stash[STACK] = ExitStack()
    given: dict[str, dict[str, Any]] = getattr(config, "workerinput", {}).get("servers", {})
    config.stash[SERVERS] = {
        major: Server(**{**server, "bindir": Path(server["bindir"])}) for major, server in given.items()
    }


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[STACK].close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Before xdist starts a worker: hand it the servers, which the first worker's turn starts."""
    started = [_server(node.config, major) for major in MAJORS if major == EMBEDDED or major in INSTALLED]
    node.workerinput["servers"] = {server.major: {**asdict(server), "bindir": str(server.bindir)} for server in started}


def _server(config: pytest.Config, major: str) -> Server:
    servers = config.stash[SERVERS]
    if major not in servers:
        bindir = None if major == EMBEDDED else INSTALLED[major]
        scratch = config.stash[STACK].enter_context(ScratchServer(bindir, settings={"max_connections": "200"}))
        assert scratch.major == major
        servers[major] = Server(major, scratch.host, scratch.port, scratch.user, scratch.bindir)
    return servers[major]


@pytest.fixture(scope="session", params=MAJORS)
def major(request: pytest.FixtureRequest) -> str:
    """Major version of the server; each test that needs a server runs once per major."""
    name = str(request.param)
    if name != EMBEDDED and name not in INSTALLED:
        pytest.skip(f"PostgreSQL {name} is not installed; SCHEMACTL_TEST_BINDIRS can name its folder of programs")
    return name


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, major: str) -> Server:
    """A throw-away server of that major, shared by the whole run."""
    return _server(request.config, major)


@pytest.fixture(autouse=True)
def _scratch_beside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch databases of `alembic check` and of `schemactl drift` are made on the test's own server."""
    if "server" in request.fixturenames:
        monkeypatch.setenv("SCHEMACTL_SCRATCH_URL", request.getfixturevalue("server").url("postgres"))


def load_head(*, host: str, port: int, user: str, dbname: str, **_: object) -> None:
    """Bring the template database to head: by the revisions, or by the models while there are none."""
    query = {"host": host, "port": str(port)}
    url = sa.URL.create("postgresql+psycopg", user, database=dbname, query=query)
    if (ROOT / "migrations/env.py").exists():
        from alembic import command
        from alembic.config import Config

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SCHEMACTL_URL", url.render_as_string(False))
            command.upgrade(Config(ROOT / "alembic.ini"), "head")
        return
    from schema.models import metadata

    engine = sa.create_engine(url, poolclass=sa.NullPool)
    metadata.create_all(engine)


def _janitor(server: Server, template: str, *, as_template: bool = False) -> DatabaseJanitor:
    """A database made on entry and dropped on exit, also when a test left connections to it."""
    name = f"{'head' if as_template else 'test'}_{uuid.uuid4().hex[:12]}"
    return DatabaseJanitor(
        user=server.user,
        host=server.host,
        port=server.port,
        dbname=name,
        template_dbname=template,
        as_template=as_template,
    )


# By the janitor and not by `postgresql_noproc`: that factory asks for its server by name while it runs, so that
# pytest does not know that the template depends on the major, and hands that of one major to the tests of another.
@pytest.fixture(scope="session")
def head_template(server: Server) -> Iterator[str]:
    """Name of a template database at head; one per worker."""
    with _janitor(server, "template0", as_template=True) as janitor:
        janitor.load(load_head)
        yield janitor.dbname


@pytest.fixture
def empty_database(server: Server) -> Iterator[str]:
    """URL of a fresh, empty database."""
    with _janitor(server, "template0") as janitor:
        yield server.url(janitor.dbname)


@pytest.fixture(scope="session")
def _recycled(server: Server, head_template: str) -> Iterator[Recycled]:
    @contextmanager
    def cloned() -> Iterator[str]:
        with _janitor(server, head_template) as janitor:
            yield server.url(janitor.dbname)

    recycled = Recycled(cloned)
    yield recycled
    recycled.close()


@pytest.fixture
def head_database(_recycled: Recycled) -> Iterator[str]:
    """URL of a database at head without rows: cloned from the template, or used by a test before and emptied."""
    with _recycled.lent() as url:
        yield url


@pytest.fixture
def empty_target(empty_database: str) -> Target:
    """The fresh, empty database as a target."""
    return Target.parse(empty_database, "the tests")


@pytest.fixture
def head_target(head_database: str) -> Target:
    """The fresh database at head as a target."""
    return Target.parse(head_database, "the tests")


@pytest.fixture
def connection(head_target: Target) -> Iterator[psycopg.Connection]:
    """A connection to the database at head."""
    opened = connect(head_target, application_name="tests")
    yield opened
    opened.close()
