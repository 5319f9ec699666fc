"""Environments as other projects have them: how they connect, and where their options are."""

import json
from pathlib import Path
from typing import Any

import pytest

from schema.cli import run
from schema.errors import ConfigError, LockTimeoutError, RevisionError
from schema.migrate import runner
from schema.migrate.project import Project
from schema.pg.connect import connect
from tests.support.faults import BLOCK, LAST, TABLE, assert_once
from tests.support.history import Database, project

ONE_TRANSACTION = """
import sqlalchemy as sa
from alembic import context
engine = sa.create_engine(context.config.get_main_option('sqlalchemy.url'), poolclass=sa.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""


ASYNCHRONOUS = """
import asyncio
from alembic import context
from sqlalchemy import pool
from sqlalchemy.ext.asyncio import create_async_engine

def run(connection):
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()

async def main():
    engine = create_async_engine(context.config.get_main_option("sqlalchemy.url"), poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(run)

asyncio.run(main())
"""


@pytest.fixture
def chain(database: Database, tmp_path: Path) -> Database:
    database.config = project(tmp_path, TABLE, BLOCK, LAST, lock_timeout_ms=200, lock_retry_s=20)
    return database


def test_one_transaction_for_all(database: Database, tmp_path: Path) -> None:
    """As Alembic's own env.py has it: nothing is tried again, and what went back is not said to stand."""
    block = "with op.get_context().autocommit_block():\n    op.execute('SELECT')\n"
    database.config = project(
        tmp_path, TABLE, block, "op.execute('SELECT')", "op.execute('ALTER TABLE busy ADD n int')"
    )
    (tmp_path / "history/env.py").write_text(ONE_TRANSACTION)
    database.run("CREATE TABLE busy ()")
    with connect(database.target) as reader:
        reader.execute("SELECT FROM busy")
        database.config.write_text(
            database.config.read_text().replace("lock_timeout_ms = 2000", "lock_timeout_ms = 100")
        )
        with pytest.raises(LockTimeoutError) as failed:
            database.upgrade()
    assert failed.value.message.endswith(
        "(SQLSTATE 55P03); committed by this run: r1, and r2, r3 went back with it, since env.py runs all in one "
        "transaction"
    )
    assert database.current() == ("r1",)


def test_an_environment_that_goes_elsewhere(database: Database, tmp_path: Path, server: Any) -> None:
    """Its database would be changed without a lock, and the one that was named would stay as it is."""
    database.config = project(tmp_path, TABLE)
    env = ONE_TRANSACTION.replace("context.config.get_main_option('sqlalchemy.url')", repr(server.url("postgres")))
    (tmp_path / "history/env.py").write_text(env)
    with pytest.raises(ConfigError, match=r"history/env.py connects to another database than postgresql"):
        database.upgrade()
    assert not Database(server.url("postgres")).table_exists("item")


def test_an_asynchronous_environment(chain: Database, tmp_path: Path) -> None:
    (tmp_path / "history/env.py").write_text(ASYNCHRONOUS)
    file = tmp_path / "history/versions/r2.py"
    file.write_text(file.read_text().replace("ADD CHECK (n = 2)", "ADD CHECK (n = 3)"))
    with pytest.raises(
        RevisionError, match=r"r2 .*these stand committed.*\(7\) CREATE INDEX CONCURRENTLY.*by this run: r1"
    ):
        chain.upgrade()
    file.write_text(file.read_text().replace("ADD CHECK (n = 3)", "ADD CHECK (n = 2)"))
    messages: list[str] = []
    with connect(chain.target) as reader:
        reader.execute("SELECT FROM item")

        def report(message: str) -> None:
            messages.append(message)
            if "attempt" in message:
                reader.rollback()

        runner.upgrade(chain.project, chain.target, report=report)
    assert messages[-1] == "r2 did not get a lock in time; attempt 2 follows."
    assert_once(chain)


def test_what_is_printed_is_no_data_and_an_exit_is_an_error(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.config = project(tmp_path, "print('in r1')", "import sys\nsys.exit()")
    env = tmp_path / "history/env.py"
    good = env.read_text()
    env.write_text(f"print('in env.py')\n{good}")
    url = ["-c", str(database.config), "--url", database.url]
    assert run([*url, "--format", "json", "upgrade"]) == 1
    printed = capsys.readouterr()
    assert "revision r2 (" in json.loads(printed.out)["error"]["message"]
    assert "called sys.exit(None); committed by this run: r1" in json.loads(printed.out)["error"]["message"]
    assert "in env.py\n" in printed.err
    assert "in r1\n" in printed.err

    env.write_text(f"raise SystemExit\n{good}")
    assert run([*url, "upgrade"]) == 1
    assert f"env.py or a revision of {tmp_path}/history called sys.exit(None)" in capsys.readouterr().err
    (tmp_path / "history/versions/r2.py").write_text("print('while read')\nraise SystemExit(0)\n")
    assert run([*url, "status"]) == 2
    assert "cannot be loaded: SystemExit: 0" in capsys.readouterr().err


def test_a_project_of_a_pyproject_alone(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options are in the table that Alembic reads, ours among them."""
    note = "op.execute(\"CREATE TABLE seen AS SELECT current_setting('lock_timeout') AS held\")"
    database.config = project(tmp_path, note)
    database.config.unlink()
    toml = tmp_path / "pyproject.toml"
    toml.write_text('[tool.alembic]\nscript_location = "%(here)s/history"\nlock_timeout_ms = 1234\n')
    monkeypatch.chdir("/")
    for named in (toml, tmp_path / "alembic.ini"):
        # An ini beside it, without a section of its own, changes nothing.
        database.config = named
        if named.suffix == ".ini":
            named.write_text("[loggers]\nkeys = root\n")
        database.run("DROP TABLE IF EXISTS seen, alembic_version")
        database.upgrade()
        assert database.rows("SELECT held FROM seen") == [("1234ms",)]
        assert Project.open(named).url is None
