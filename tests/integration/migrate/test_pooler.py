"""Runs through PgBouncer in transaction mode, which gives each transaction to the next of its sessions."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from schema.errors import LockTimeoutError, RevisionError
from schema.migrate import runner
from tests.support.faults import BLOCK, LAST, TABLE, die_and_go_on
from tests.support.history import HEAD, REVISIONS, Database, alembic_command, alembic_environment, project
from tests.support.pooler import pooled, pooler

SESSIONS = 4
SHOWN = "current_setting('lock_timeout') || ' ' || current_setting('work_mem') || ' ' || current_setting('TimeZone')"
NOTE = f"op.execute(\"INSERT INTO seen SELECT '{{0}}', {SHOWN}\")\n"
CREATE = "op.execute('CREATE TABLE seen (place text, settings text)')\n"


@dataclass(frozen=True)
class Through:
    """A database, named through the pooler and directly."""

    pooled: Database
    direct: Database

    def configure(self, config: Path) -> None:
        self.pooled.config = self.direct.config = config

    def sessions(self) -> set[str]:
        """What holds in each session of the pool, outside of the run's own transactions."""
        with ExitStack() as stack:
            found = {}
            for _ in range(SESSIONS):
                conninfo = self.pooled.target.conninfo
                connection = stack.enter_context(psycopg.connect(conninfo, prepare_threshold=None))
                pid, shown = connection.execute(f"SELECT pg_backend_pid(), {SHOWN}").fetchone()  # type: ignore[misc]
                found[pid] = shown
            assert len(found) == SESSIONS
            return set(found.values())


@pytest.fixture
def through(server: Any, database: Database) -> Iterator[Through]:
    with pooler(server, default_pool_size=SESSIONS, server_round_robin=1) as folder:
        yield Through(Database(pooled(database.url, folder)), database)


def test_our_history_from_empty_to_head_and_back(through: Through, head_database: str) -> None:
    """By two runners at once, of plain `alembic`; back by this process."""
    before = through.sessions()
    runners = [
        subprocess.Popen(
            alembic_command("upgrade", "head"),
            env=alembic_environment(through.pooled.url),
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    output = [process.communicate(timeout=60)[1] for process in runners]
    assert [process.returncode for process in runners] == [0, 0], output
    assert sorted(text.count("Running upgrade") for text in output) == [0, REVISIONS]
    assert "indexes are made and dropped CONCURRENTLY without lock_timeout and statement_timeout" in max(
        output, key=len
    )
    assert through.direct.current() == (HEAD,)
    assert through.direct.value("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0
    assert through.direct.catalog() == Database(head_database).catalog()
    assert through.sessions() == before

    through.pooled.downgrade("base")
    assert through.direct.current() == ()
    assert not through.direct.table_exists("sessions")
    assert not through.direct.table_exists("alembic_version_unfinished")
    assert through.sessions() == before


def test_runners_that_die(through: Through, tmp_path: Path, major: str) -> None:
    """As without a pooler, of which there every statement is tried."""
    through.configure(project(tmp_path, TABLE, BLOCK, LAST, lock_retry_s=20))
    died, recognised = die_and_go_on(through.pooled, through.direct, range(6 if major == "18" else 9, 100, 6))
    assert died > 3
    assert recognised > 2


def test_settings_hold_in_a_revision_and_in_no_other_session(through: Through, tmp_path: Path) -> None:
    before = through.sessions()
    through.configure(
        project(
            tmp_path,
            CREATE
            + NOTE.format("first")
            + "op.execute(\"SET work_mem = '5MB'\")\n"
            + NOTE.format("set")
            + "with op.get_context().autocommit_block():\n    "
            + NOTE.format("in the block")
            + "    op.execute('SET lock_timeout TO 5000;')\n    "
            + NOTE.format("set in the block")
            + "    op.execute('RESET work_mem')\n    "
            + NOTE.format("reset in the block")
            + "op.execute('SET TIME ZONE 7')\nop.execute(\"SET work_mem = '7MB'\")\n"
            + NOTE.format("after")
            + "op.execute('RESET ALL')\n"
            + NOTE.format("reset")
            + "op.execute(\"SET work_mem = '6MB'\")\n",
            NOTE.format("next"),
            lock_timeout_ms=1234,
        )
    )
    through.pooled.upgrade()
    assert through.direct.rows("SELECT * FROM seen") == [
        ("first", "1234ms 4MB UTC"),
        ("set", "1234ms 5MB UTC"),
        ("in the block", "1234ms 5MB UTC"),
        ("set in the block", "5s 5MB UTC"),
        ("reset in the block", "5s 4MB UTC"),
        ("after", "5s 7MB <+07>-07"),
        ("reset", "1234ms 4MB UTC"),
        ("next", "1234ms 4MB UTC"),
    ]
    assert through.sessions() == before


def test_a_setting_that_postgresql_refuses(through: Through, tmp_path: Path) -> None:
    block = "with op.get_context().autocommit_block():\n    op.execute('SET lock_timeout = soon')\n"
    through.configure(project(tmp_path, CREATE + block))
    with pytest.raises(RevisionError, match='invalid value for parameter "lock_timeout"'):
        through.pooled.upgrade()


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["VACUUM seen"], "where VACUUM seen would run without the timeouts"),
        (["REINDEX TABLE CONCURRENTLY seen"], "where REINDEX TABLE CONCURRENTLY seen would run without the timeouts"),
        (
            ["SET search_path = other", "CREATE INDEX CONCURRENTLY i ON seen (place)", "RESET ALL"],
            "where CREATE INDEX CONCURRENTLY i ON seen (place) would run without the search_path that the "
            "revision sets",
        ),
    ],
)
def test_what_needs_a_session_is_refused_and_goes_on_without_the_pooler(
    through: Through, tmp_path: Path, statements: list[str], why: str
) -> None:
    lines = "".join(f"    op.execute('{statement}')\n" for statement in statements)
    block = f"with op.get_context().autocommit_block():\n    {NOTE.format('once')}{lines}"
    through.configure(project(tmp_path, CREATE + "op.execute('CREATE SCHEMA other')\n" + block))
    with pytest.raises(RevisionError) as refused:
        through.pooled.upgrade()
    assert f"the connection goes through a pooler, {why}; of its statements these stand" in refused.value.message
    assert refused.value.hint == "Name PostgreSQL itself with --url: the run goes on from there."
    through.direct.run("CREATE TABLE other.seen (place text)")
    through.direct.upgrade()
    assert through.direct.rows("SELECT place FROM seen") == [("once",)]
    assert through.direct.current() == ("r1",)


def test_an_environment_that_makes_its_own_connection(through: Through, tmp_path: Path) -> None:
    """It knows nothing of poolers: the run makes the settings in its transactions too, and retries."""
    through.configure(
        project(
            tmp_path,
            CREATE + "op.execute('CREATE TABLE held (n int)')",
            NOTE.format("before")
            + "with op.get_context().autocommit_block():\n    "
            + NOTE.format("in")
            + "op.execute('ALTER TABLE held ADD m int')\n"
            + NOTE.format("after"),
            lock_timeout_ms=150,
            lock_retry_s=0,
        )
    )
    (tmp_path / "history/env.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import context\n"
        "engine = sa.create_engine(context.config.get_main_option('sqlalchemy.url'), poolclass=sa.NullPool)\n"
        "with engine.connect() as connection:\n"
        "    context.configure(connection=connection, transaction_per_migration=True)\n"
        "    with context.begin_transaction():\n        context.run_migrations()\n"
    )
    through.pooled.upgrade("r1")
    with through.direct.connection() as reader, reader.transaction():
        reader.execute("SELECT FROM held")
        with pytest.raises(LockTimeoutError, match=r"these stand committed.*'in'"):
            runner.upgrade(through.pooled.project, through.pooled.target)
    through.pooled.upgrade()
    assert through.direct.rows("SELECT place, split_part(settings, ' ', 1) FROM seen") == [
        ("before", "150ms"),
        ("in", "150ms"),
        ("after", "150ms"),
    ]
