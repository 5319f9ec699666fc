"""Runs that are killed, cut off, kept waiting or crowded: each statement once, and the next run goes on."""

import os
import signal
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any

import psycopg
import pytest

from schema.errors import DatabaseError, LockTimeoutError, RevisionError
from schema.migrate import runner
from schema.pg.connect import connect
from schema.pg.scratch import ScratchServer
from tests.support.history import Database, alembic, alembic_command, alembic_environment, project, until
from tests.support.pooler import pooled, pooler

TABLE = "op.execute('CREATE TABLE item (id int, n int NOT NULL)')\n"
# A part in a transaction, writes that must not happen twice, an index, and a part in a transaction again.
BLOCK = """
op.execute("CREATE TABLE log (line text)")
op.execute("INSERT INTO item SELECT g, 0 FROM generate_series(1, 100) AS g")
with op.get_context().autocommit_block():
    op.execute("SET lock_timeout = 0")
    op.execute("INSERT INTO log VALUES ('first')")
    while op.get_bind().exec_driver_sql(
        "UPDATE item SET n = n + 1 WHERE id IN (SELECT id FROM item WHERE n = 0 ORDER BY id LIMIT 60)"
    ).rowcount:
        pass
    op.execute("CREATE INDEX CONCURRENTLY ix_item_n ON item (n)")
    op.execute("UPDATE item SET n = n + 1")
    op.execute("RESET lock_timeout")
op.execute("ALTER TABLE item ADD CHECK (n = 2)")
"""
LAST = "op.execute(\"INSERT INTO log VALUES ('last')\")\n"
JOURNAL = "public.alembic_version_unfinished"


@pytest.fixture
def chain(database: Database, tmp_path: Path) -> Database:
    database.config = project(tmp_path, TABLE, BLOCK, LAST, lock_timeout_ms=200, lock_retry_s=20)
    return database


def assert_once(database: Database) -> None:
    assert database.current() == ("r3",)
    assert database.rows("SELECT count(*), min(n), max(n) FROM item") == [(100, 2, 2)]
    assert database.rows("SELECT line FROM log") == [("first",), ("last",)]
    assert database.index("ix_item_n") == ("public.item USING btree (n)", True)
    # No trace.
    assert not database.table_exists("alembic_version_unfinished")
    until(lambda: database.runner_locks() == 0)


def test_ten_runners_at_once(chain: Database) -> None:
    runners = [
        subprocess.Popen(
            alembic_command("upgrade", "head", config=chain.config),
            env=alembic_environment(chain.url),
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(10)
    ]
    output = [process.communicate(timeout=60)[1] for process in runners]
    assert [process.returncode for process in runners] == [0] * 10, output
    assert sorted(text.count("Running upgrade") for text in output) == [0] * 9 + [3]
    assert_once(chain)


def killed(database: Database, number: int) -> bool:
    """Run an upgrade, in a process of its own, that kills itself after a statement; False when it came to its end."""
    with warnings.catch_warnings():
        # Of the test runner's other thread; the child takes none of its locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == signal.SIGKILL
    count, real = 0, psycopg.Cursor.execute

    def execute(self: Any, *arguments: Any, **keywords: Any) -> Any:
        nonlocal count
        result = real(self, *arguments, **keywords)
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def begin(step: runner.Step) -> None:
        if step.seconds is None:
            psycopg.Cursor.execute = execute  # type: ignore[method-assign]

    try:
        runner.upgrade(database.project, database.target, "r2", on_step=begin)
    finally:
        os._exit(0)


def test_killed_between_every_two_statements(chain: Database, major: str) -> None:
    """Each statement of the block's revision, those of the journal among them, is once the last one.

    The majors share them: one takes the odd ones, the other the even ones.
    """
    chain.upgrade("r1")
    number, recognised = -1 if major == "18" else 0, 0
    dying = True
    while dying:
        number += 2
        chain.run(
            f"DROP TABLE IF EXISTS log, {JOURNAL}",
            "DROP TABLE item",
            "CREATE TABLE item (id int, n int NOT NULL)",
            "UPDATE alembic_version SET version_num = 'r1'",
        )
        dying = killed(chain, number)
        # The server may need a moment to notice, and to end what the dead client asked for.
        until(lambda: chain.runner_locks() == 0)
        messages: list[str] = []
        runner.upgrade(chain.project, chain.target, report=messages.append)
        recognised += any("an earlier run ended in the middle of the upgrade to r2" in text for text in messages)
        assert_once(chain)
    assert number > 25
    assert recognised > 5


def test_the_next_run_says_what_had_committed(chain: Database, tmp_path: Path) -> None:
    file = tmp_path / "history/versions/r2.py"
    good = file.read_text()
    file.write_text(good.replace('op.execute("UPDATE item SET n = n + 1")', 'op.execute("SELECT 1/0")'))
    with pytest.raises(RevisionError) as failed:
        chain.upgrade()
    committed = (
        "(1) CREATE TABLE log (line text) (2) INSERT INTO item SELECT g, 0 FROM generate_series(1, 100) AS g "
        "(3) INSERT INTO log VALUES ('first') (4) UPDATE item"
    )
    assert "these stand committed, and the next run goes on after them: " + committed in failed.value.message
    assert "CREATE INDEX CONCURRENTLY ix_item_n ON item (n)" in failed.value.message
    assert chain.current() == ("r1",)

    with pytest.raises(RevisionError, match="in the middle of the upgrade to r2") as refused:
        chain.downgrade("base")
    assert 'DROP TABLE "public"."alembic_version_unfinished"' in refused.value.hint

    # The failing statement never ran, so it may be mended; what ran may not be another.
    file.write_text(good.replace("'first'", "'other'"))
    with pytest.raises(
        RevisionError, match=r"statement 4, which stands committed, was INSERT INTO log VALUES \('first'"
    ):
        chain.upgrade()
    file.write_text(good)
    plain = alembic("upgrade", "head", url=chain.url, config=chain.config)
    assert plain.returncode == 0, plain.stderr
    assert f"these statements of it stand committed: {committed}" in plain.stderr
    assert_once(chain)


def test_finished_by_hand_and_stamped(chain: Database, tmp_path: Path) -> None:
    file = tmp_path / "history/versions/r2.py"
    file.write_text(file.read_text().replace("ADD CHECK (n = 2)", "ADD CHECK (n = 3)"))
    with pytest.raises(RevisionError):
        chain.upgrade()
    chain.alembic("stamp", "r2")
    chain.upgrade()
    assert_once(chain)


def test_a_long_reader(chain: Database, tmp_path: Path) -> None:
    """Retried while it reads; then a clear error and nothing half done; then, when it goes, success."""
    chain.upgrade("r1")
    before = chain.catalog()
    file = tmp_path / "history/versions/r2.py"
    file.write_text(
        file.read_text().replace(
            'op.execute("CREATE TABLE log',
            "op.execute('ALTER TABLE item ADD x int')\nop.execute(\"CREATE TABLE log".replace("\nop", "\n    op"),
            1,
        )
    )
    config = chain.config
    hasty = config.read_text().replace("lock_retry_s = 20", "lock_retry_s = 1")
    (config.parent / "hasty.ini").write_text(hasty)
    messages: list[str] = []
    with chain.connection() as reader:
        with reader.transaction():
            reader.execute("SELECT FROM item")
            chain.config = config.parent / "hasty.ini"
            with pytest.raises(LockTimeoutError, match=r"SQLSTATE 55P03\), tried [2-9] times in [\d.]+ s"):
                runner.upgrade(chain.project, chain.target, report=messages.append)
            assert "r2 did not get a lock in time; attempt 2 follows." in messages
            assert (chain.catalog(), chain.current()) == (before, ("r1",))
            plain = alembic("upgrade", "head", url=chain.url, config=chain.config)
            assert plain.returncode != 0
            assert "attempt 2 follows" in plain.stderr
            assert "tried" in plain.stderr.splitlines()[-1]
        chain.config = config
        with reader.transaction():
            reader.execute("SELECT FROM item")
            waiting = threading.Event()
            thread = threading.Thread(
                target=lambda: runner.upgrade(chain.project, chain.target, report=lambda _: waiting.set())
            )
            thread.start()
            assert waiting.wait(20)
        thread.join(30)
    assert_once(chain)


def test_a_lock_that_is_not_to_be_had_in_and_after_a_block(database: Database, tmp_path: Path) -> None:
    """What had committed is not run again by the retry, and an INVALID index goes before its next attempt."""
    database.config = project(
        tmp_path,
        "op.execute('CREATE TABLE one (n int)')\nop.execute('CREATE TABLE two (n int)')\n"
        "op.execute('INSERT INTO one VALUES (0)')",
        """
        with op.get_context().autocommit_block():
            op.execute("UPDATE one SET n = n + 1")
            op.execute("CREATE INDEX CONCURRENTLY ix_one_n ON one (n)")
        op.execute("ALTER TABLE two ADD extra int")
        """,
        lock_timeout_ms=200,
        lock_retry_s=30,
    )
    database.upgrade("r1")
    seen: list[bool] = []
    reported: list[str] = []

    def report(message: str) -> None:
        reported.append(message)
        seen.append(database.index("ix_one_n") is not None and not database.index("ix_one_n")[1])  # type: ignore[index]
        if len(reported) == 2:
            first.rollback()
        if len(reported) == 4:
            second.rollback()

    with connect(database.target) as first, connect(database.target) as second:
        # CREATE INDEX CONCURRENTLY waits for this writer, and is INVALID when it gives up.
        first.execute("CREATE TEMP TABLE mine AS SELECT 1")
        first.execute("LOCK TABLE one IN ROW EXCLUSIVE MODE")
        second.execute("SELECT FROM two")
        runner.upgrade(database.project, database.target, report=report)
    assert len(reported) >= 4
    assert seen[0]
    assert not seen[-1]
    assert database.current() == ("r2",)
    assert database.rows("SELECT n FROM one") == [(1,)]
    assert database.index("ix_one_n") == ("public.one USING btree (n)", True)
    assert database.value("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0


def test_a_connection_cut_in_a_block(chain: Database) -> None:
    cut = """
    with op.get_context().autocommit_block():
        op.execute("INSERT INTO log VALUES ('second')")
        op.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    """
    file = chain.config.parent / "history/versions/r3.py"
    good = file.read_text()
    file.write_text(good.replace("    op.execute", cut + "    op.execute", 1).replace("\n\n    with", "\n    with"))
    with pytest.raises(
        DatabaseError,
        match=r"57P01\); of its statements these stand .*INSERT INTO log VALUES \('second'\); committed by",
    ):
        chain.upgrade()
    until(lambda: chain.runner_locks() == 0)
    file.write_text(file.read_text().replace("pg_terminate_backend(pg_backend_pid())", "1"))
    chain.upgrade()
    assert chain.rows("SELECT line FROM log") == [("first",), ("second",), ("last",)]


def test_two_schemas_in_one_database(database: Database, tmp_path: Path) -> None:
    """Each has its own version table; what one left in the middle is nothing to the other."""
    made = {}
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        made[name] = Database(database.url, project(folder, TABLE, BLOCK, LAST))
        env = folder / "history/env.py"
        env.write_text(
            "import sqlalchemy as sa\nfrom alembic import context\n"
            "engine = sa.create_engine(context.config.get_main_option('sqlalchemy.url'), poolclass=sa.NullPool)\n"
            f"with engine.connect() as connection:\n    connection.exec_driver_sql('SET search_path = {name}')\n"
            "    connection.commit()\n"
            f"    context.configure(connection=connection, version_table_schema='{name}', "
            "transaction_per_migration=True)\n"
            "    with context.begin_transaction():\n        context.run_migrations()\n"
        )
        database.run(f"CREATE SCHEMA {name}")
    one, two = made["one"], made["two"]
    file = tmp_path / "one/history/versions/r2.py"
    good = file.read_text()
    file.write_text(good.replace("ADD CHECK (n = 2)", "ADD CHECK (n = 3)"))
    with pytest.raises(RevisionError, match="these stand committed"):
        one.upgrade()
    assert database.table_exists("one.alembic_version_unfinished")
    two.upgrade()
    file.write_text(good)
    one.upgrade()
    for name in ("one", "two"):
        assert database.rows(f"SELECT count(*), min(n), max(n) FROM {name}.item") == [(100, 2, 2)]
        assert database.rows(f"SELECT version_num FROM {name}.alembic_version") == [("r3",)]
        assert not database.table_exists(f"{name}.alembic_version_unfinished")


def test_a_server_that_restarts(tmp_path: Path, server: object) -> None:
    bindir = None if server.major == "18" else server.bindir  # type: ignore[attr-defined]
    with ScratchServer(bindir) as scratch:
        database = Database(scratch.create_database(), project(tmp_path, TABLE, BLOCK, LAST))
        opened = database.project

        def restart(step: runner.Step) -> None:
            if step.number == 2 and step.seconds is None:
                scratch.installation.stop(scratch.folder, mode="immediate")
                scratch.installation.start(scratch.folder, {"fsync": "off"}, socket=scratch.folder)

        with pytest.raises(DatabaseError, match="committed by this run: r1"):
            runner.upgrade(opened, database.target, on_step=restart)
        runner.upgrade(opened, database.target)
        assert_once(database)


def test_a_lock_connection_that_breaks_stops_the_run(chain: Database) -> None:
    def cut(step: runner.Step) -> None:
        if step.number == 2 and step.seconds is None:
            chain.rows(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name LIKE 'schemactl runner lock%' AND datname = current_database()"
            )

    with pytest.raises(DatabaseError, match="the connection that holds this run's lock broke"):
        runner.upgrade(chain.project, chain.target, on_step=cut)
    assert chain.current() == ("r1",)
    chain.upgrade()
    assert_once(chain)


def test_behind_a_pooler(server: object, database: Database, tmp_path: Path) -> None:
    """Transactions run with their timeouts, and a block is refused before anything of the run."""
    note = "op.execute(\"CREATE TABLE seen AS SELECT current_setting('lock_timeout') AS held\")\n"
    database.config = project(tmp_path, TABLE + note, LAST.replace("log", "seen"), BLOCK, lock_timeout_ms=1234)
    with pooler(server) as folder:
        through = Database(pooled(database.url, folder), database.config)
        runners = [
            subprocess.Popen(
                alembic_command("upgrade", "r2", config=database.config),
                env=alembic_environment(through.url),
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        output = [process.communicate(timeout=60)[1] for process in runners]
        assert [process.returncode for process in runners] == [0] * 3, output
        assert sorted(text.count("Running upgrade") for text in output) == [0, 0, 2]
        assert database.rows("SELECT held FROM seen") == [("1234ms",), ("last",)]
        before = database.catalog()
        with pytest.raises(DatabaseError, match="goes through a pooler, and r3 has an autocommit block") as refused:
            through.upgrade()
        assert "--url" in refused.value.hint
        plain = alembic("upgrade", "head", url=through.url, config=database.config)
        assert plain.returncode != 0
        assert "goes through a pooler, and r3" in plain.stderr
        assert database.catalog() == before


def test_an_unguarded_run_is_plain_alembic(database: Database, tmp_path: Path) -> None:
    """No journal, and a lock that is not to be had ends it at once, with what a block did before standing."""
    database.config = project(
        tmp_path,
        "op.execute('CREATE TABLE one (n int)')\nop.execute('CREATE TABLE two (n int)')",
        """
        with op.get_context().autocommit_block():
            op.execute("INSERT INTO one VALUES (1)")
            op.execute("SELECT count(*) FROM one")
        op.execute("ALTER TABLE two ADD extra int")
        """,
        lock_timeout_ms=200,
        lock_retry_s=30,
    )
    options = runner.Options(guarded=False)
    runner.upgrade(database.project, database.target, "r1", options=options)
    with connect(database.target) as other:
        other.execute("LOCK TABLE two")
        with pytest.raises(LockTimeoutError):
            runner.upgrade(database.project, database.target, options=options, report=pytest.fail)
    assert runner.version_table(database.project, database.target).unfinished is None
    assert database.rows("SELECT n FROM one") == [(1,)]
    runner.upgrade(database.project, database.target, options=options)
    assert (database.current(), database.rows("SELECT n FROM one")) == (("r2",), [(1,), (1,)])
