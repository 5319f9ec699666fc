"""Revisions that misbehave, runs that are stopped, two at once: what is said, and that nothing is left."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from schema.drift.workshop import open_workshop
from schema.errors import DatabaseError, UsageError
from schema.pg.target import Target
from schema.review.finding import Example
from schema.review.review import Request, Review, review
from tests.conftest import ROOT, Server
from tests.support.drift import plain
from tests.support.foreign import schemactl
from tests.support.majors import embedded_only
from tests.support.review import found, reviewed, write

COLUMN = Example('op.execute("ALTER TABLE app ADD COLUMN n int")', downgrade='op.drop_column("app", "n")')


@dataclass(frozen=True)
class Account:
    """A role that may create databases, so that those of tests beside this one are not counted."""

    url: str
    name: str
    admin: psycopg.Connection

    def databases(self) -> list[str]:
        query = "SELECT datname FROM pg_database WHERE datdba = %s::regrole"
        return [row[0] for row in self.admin.execute(query, [self.name])]


@pytest.fixture
def account(server: Server) -> Iterator[Account]:
    name = f"review_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(plain(server.url("postgres")), autocommit=True) as admin:
        # Of predefined roles it has what ending its own sessions needs: nothing.
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB").format(sql.Identifier(name)))
        url = sa.make_url(server.url("postgres")).set(username=name).render_as_string(hide_password=False)
        yield Account(url, name, admin)
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('op.execute("DROP TABLE alembic_version")', 'relation "alembic_version" does not exist'),
        ('op.execute("CREATE EXTENSION no_such_extension")', 'extension "no_such_extension" is not available'),
        ('op.execute("SELECT pg_terminate_backend(pg_backend_pid())")', "terminating connection"),
        ('op.execute("ALTER TABLE app OWNER TO nobody_here")', 'role "nobody_here" does not exist'),
    ],
)
def test_what_ends_a_revision_is_said_and_the_rest_reviewed(
    server: Server, account: Account, tmp_path: Path, body: str, why: str
) -> None:
    result = reviewed(write(tmp_path, COLUMN, Example(body)), account.url, reverse=True)
    ((revision, told),) = result.faults
    assert (revision.id, why in told) == ("b2", True), told
    assert [each.trace.error is None for each in result.reviewed] == [True, False]
    assert account.databases() == []


@pytest.mark.parametrize(
    "body",
    [
        # A session of its own that holds the table, and is never closed.
        'c = op.get_bind().engine.connect()\nc.execute(sa.text("LOCK TABLE app IN ROW EXCLUSIVE MODE"))\nop.x = c',
        'with op.get_context().autocommit_block():\n    op.execute("BEGIN")\n    op.execute("SELECT FROM app")',
    ],
)
def test_a_transaction_left_open_holds_nobody_up(server: Server, account: Account, tmp_path: Path, body: str) -> None:
    started = time.monotonic()
    result = reviewed(write(tmp_path, Example(body), COLUMN), account.url, reverse=True, patience_s=20.0)
    assert time.monotonic() - started < 60
    assert [revision.id for revision, _ in result.faults if revision.id != "b1"] == []
    assert len(result.reviewed) == 2
    assert account.databases() == []


def test_an_index_build_beside_a_strong_lock_of_the_revision_s_own_is_not_waited_for(
    server: Server, tmp_path: Path
) -> None:
    """The observer's own session gets no lock on that table, and the build itself must end at a timeout."""
    body = """\
other = op.get_bind().engine.connect()
other.execute(sa.text("LOCK TABLE parent IN EXCLUSIVE MODE"))
with op.get_context().autocommit_block():
    op.execute("CREATE INDEX CONCURRENTLY ix_app_number ON app (number)")
other.close()"""
    result = reviewed(write(tmp_path, Example(body)), server.url("postgres"), patience_s=30.0)
    (only,) = [each for each in result.reviewed[0].trace.statements if "INDEX" in each.text]
    assert (result.faults, only.error) == ([], None)


@contextmanager
def running(
    ini: Path, cache: Path, scratch: str = "", *, bindir: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCHEMACTL_")}
    where = {"SCHEMACTL_SCRATCH_URL": scratch} if bindir is None else {"SCHEMACTL_PG_BINDIR": str(bindir)}
    words = ("-c", str(ini), "--format", "json", "review", "a0:head")
    process = subprocess.Popen(
        [sys.executable, "-m", "schema", *words],
        env={**kept, **where, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(mark: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not mark.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


@embedded_only
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["in the server", "in Python"])
def test_a_review_that_is_stopped_leaves_nothing(
    account: Account, tmp_path: Path, stop: signal.Signals, where: str
) -> None:
    mark = tmp_path / "there"
    sleep = 'op.execute("SELECT pg_sleep(60)")' if where == "in the server" else "import time; time.sleep(60)"
    body = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n{sleep}"
    project = write(tmp_path / "project", Example(body))
    with running(project.ini, tmp_path, account.url) as process:
        wait_for(mark, process)
        process.send_signal(stop)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, "Interrupted" in errors) == (130, True), errors
    assert account.databases() == []


@embedded_only
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="finds the server of a process by /proc/locks")
def test_a_scratch_server_goes_with_the_review(server: Server, tmp_path: Path) -> None:
    mark = tmp_path / "there"
    body = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\nimport time; time.sleep(60)"
    project = write(tmp_path / "project", Example(body))
    with running(project.ini, tmp_path, bindir=server.bindir) as process:
        wait_for(mark, process)
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        held = [words for words in locks if words[1] == "FLOCK" and words[4] == str(process.pid)]
        inodes = {int(words[5].rpartition(":")[2]) for words in held}
        owners = [*Path("/tmp").glob("schemactl-*/owner.lock"), *Path("/dev/shm").glob("schemactl-*/owner.lock")]
        (folder,) = [path.parent for path in owners if path.stat().st_ino in inodes]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert not folder.exists()


@embedded_only
def test_two_reviews_at_once(account: Account, tmp_path: Path) -> None:
    project = write(tmp_path / "project", COLUMN, Example('op.create_index("ix_app_n", "app", ["n"])'))
    with running(project.ini, tmp_path, account.url) as one, running(project.ini, tmp_path, account.url) as other:
        outputs = [process.communicate(timeout=120)[0] for process in (one, other)]
        assert [one.returncode, other.returncode] == [3, 3]
    findings = [
        [finding["message"] for revision in json.loads(text)["revisions"] for finding in revision["findings"]]
        for text in outputs
    ]
    assert findings[0] == findings[1] != []
    assert account.databases() == []


def _request(project: object, *, first: str = "b1", **options: object) -> Request:
    return Request(project, (project.revision(first),), together=True, **options)  # type: ignore[attr-defined, arg-type]


@pytest.fixture
def staging(empty_database: str) -> str:
    """A copy of production at a0, which has two rows."""
    with psycopg.connect(plain(empty_database), autocommit=True) as connection:
        connection.execute("CREATE TABLE parent (id bigint PRIMARY KEY, name text)")
        connection.execute("CREATE TABLE app (id bigint PRIMARY KEY, name varchar(50), number int)")
        connection.execute("INSERT INTO app VALUES (1, 'one', NULL), (2, 'two', 7)")
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.execute("INSERT INTO alembic_version VALUES ('a0')")
    return empty_database


def _of(staging: str, tmp_path: Path, *bodies: str, first: str = "b1") -> Review:
    # Its first revision cannot be run from empty.
    project = write(tmp_path, *map(Example, bodies), base="SELECT 1 / 0")
    return review(_request(project, first=first, scratch_template=staging))


def test_a_staging_copy_gives_schema_and_rows_and_stays_as_it_is(staging: str, tmp_path: Path) -> None:
    result = _of(staging, tmp_path, 'op.execute("UPDATE app SET number = 0 WHERE number IS NULL")')
    assert result.faults == []
    (only,) = result.reviewed[0].trace.statements
    assert only.rows == 1
    with psycopg.connect(plain(staging)) as connection:
        assert connection.execute("SELECT id, number FROM app ORDER BY id").fetchall() == [(1, None), (2, 7)]
        assert connection.execute("SELECT count(*) FROM parent").fetchone() == (0,)
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("a0",)]
    refused = _of(staging, tmp_path / "two", 'op.alter_column("app", "number", nullable=False)')
    assert "not-null-refused" in found(refused)


def test_a_staging_copy_goes_up_to_the_parents(staging: str, tmp_path: Path) -> None:
    result = _of(staging, tmp_path, COLUMN.upgrade, 'op.create_index("ix_app_n", "app", ["n"])', first="b2")
    assert (result.faults, "index-blocking" in found(result)) == ([], True)


def test_a_staging_copy_that_is_in_use_or_too_far_is_refused(staging: str, tmp_path: Path) -> None:
    with psycopg.connect(plain(staging), autocommit=True) as connection:
        with pytest.raises(DatabaseError, match=r"cannot be copied: .*is being accessed by other users") as refused:
            _of(staging, tmp_path / "one", COLUMN.upgrade)
        assert "Nobody may be connected" in refused.value.hint
        connection.execute("UPDATE alembic_version SET version_num = 'b1'")
    with pytest.raises(UsageError, match="is at b1, which has b1 already"):
        _of(staging, tmp_path / "two", COLUMN.upgrade)


def test_roles_of_production_are_there_and_go(server: Server, tmp_path: Path) -> None:
    role = f"reporting_{uuid.uuid4().hex[:8]}"
    stats = tmp_path / "stats.json"
    with psycopg.connect(plain(server.url("postgres")), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        try:
            arguments = ("--url", server.url("postgres"), "review", "stats", "-o", str(stats))
            done = schemactl(*arguments, cache=tmp_path)
        finally:
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
    assert done.returncode == 0, done.stderr
    assert role in json.loads(stats.read_text())["roles_v1"]
    # Not the first statement, and in a block that catches what a missing role raises.
    body = f"""\
op.execute("ALTER TABLE app ADD COLUMN n int")
op.execute("DO $$ BEGIN EXECUTE 'GRANT SELECT ON app TO {role}'; END $$")"""
    project = write(tmp_path / "project", Example(body))
    words = ("-c", str(project.ini), "--pg-bindir", str(server.bindir), "--format", "json", "review", "b1")
    lacking = json.loads(schemactl(*words, cache=tmp_path).stdout)
    assert f'role "{role}" does not exist' in lacking["faults"][0]["message"]
    given = json.loads(schemactl(*words, "--stats", str(stats), cache=tmp_path).stdout)
    assert given["faults"] == []


@embedded_only
def test_a_filled_database_is_remembered(server: Server, tmp_path: Path) -> None:
    """On a server of ours that lasts, which the test's stands for."""
    filled: list[str] = []

    def fill(target: Target) -> None:
        filled.append(str(target.url.database))
        with psycopg.connect(plain(target.url.render_as_string(hide_password=False))) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS n")

    url = server.url("postgres")
    with open_workshop(live=None, live_target=None, scratch_url=url, pg_bindir=None, ini=tmp_path / "x.ini") as opened:
        workshop = replace(opened, ours=True, lasting=True)
        digests = [uuid.uuid4().hex for _ in range(4)]
        with psycopg.connect(plain(url), autocommit=True) as admin:

            def kept() -> set[str]:
                rows = admin.execute("SELECT datname FROM pg_database WHERE datname LIKE 'schemactl_kept_%'")
                return {row[0].removeprefix("schemactl_kept_") for row in rows} & set(digests)

            for digest in (digests[0], digests[0], *digests[1:]):
                with workshop.remembered(digest, fill) as target:
                    address = plain(target.url.render_as_string(hide_password=False))
                    with psycopg.connect(address) as connection:
                        assert connection.execute("DELETE FROM kept RETURNING n").fetchall() == [(1,)]
            assert len(filled) == 4
            # The oldest went.
            assert kept() == set(digests[1:])
            for digest in digests[1:]:
                admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(f"schemactl_kept_{digest}")))
