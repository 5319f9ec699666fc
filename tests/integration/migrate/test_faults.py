"""Runs that are killed, cut off, kept waiting or crowded: each statement once, and the next run goes on."""

import re
import threading
from pathlib import Path

import psycopg
import pytest

from schema.errors import DatabaseError, LockTimeoutError, RevisionError
from schema.migrate import runner
from schema.pg.connect import connect
from schema.pg.scratch import ScratchServer
from tests.support.faults import BLOCK, LAST, TABLE, alembic_in_forks, assert_once, die_and_go_on, interrupt
from tests.support.history import Database, alembic, project, until


@pytest.fixture
def chain(database: Database, tmp_path: Path) -> Database:
    database.config = project(tmp_path, TABLE, BLOCK, LAST, lock_timeout_ms=200, lock_retry_s=20)
    return database


def test_ten_runners_at_once(chain: Database) -> None:
    """Plain `alembic` in ten processes, forked from this one, which has imported everything."""
    codes, output = alembic_in_forks(10, chain.config, chain.url, "upgrade", "head")
    assert codes == [0] * 10, output
    assert sorted(text.count("Running upgrade") for text in output) == [0] * 9 + [3]
    assert_once(chain)


def test_killed_between_every_two_statements(chain: Database, major: str) -> None:
    """Each statement of the block's revision, those of the journal among them, is once the last one.

    The majors share them: one takes the odd ones, the other the even ones.
    """
    died, recognised = die_and_go_on(chain, chain, range(1 if major == "18" else 2, 100, 2))
    assert died > 10
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


@pytest.mark.parametrize("mode", ["ROW EXCLUSIVE", "ACCESS EXCLUSIVE"])
def test_a_version_table_that_somebody_holds(chain: Database, mode: str) -> None:
    """One with an UPDATE of his own keeps off our UPDATE, and is waited for as for any other lock; others may read.

    One who keeps off readers too is named when the run looks where it is.
    """
    chain.upgrade("r1")
    before = chain.catalog()
    messages: list[str] = []
    with connect(chain.target) as holder:
        if mode == "ACCESS EXCLUSIVE":
            holder.execute("LOCK TABLE alembic_version")
            with pytest.raises(LockTimeoutError, match="lock timeout"):
                chain.upgrade()
            holder.rollback()
            assert (chain.catalog(), chain.current()) == (before, ("r1",))
            return
        holder.execute("UPDATE alembic_version SET version_num = version_num")

        def report(message: str) -> None:
            messages.append(message)
            assert chain.current() == ("r1",)
            holder.rollback()

        runner.upgrade(chain.project, chain.target, report=report)
    assert messages == ["r2 did not get a lock in time; attempt 2 follows."]
    assert_once(chain)


def test_what_reindex_leaves_goes_before_the_next_attempt(database: Database, tmp_path: Path) -> None:
    """Of the table, of its partitions and of what is kept beside it; what others left elsewhere stays."""
    database.config = project(
        tmp_path,
        """
        op.execute("CREATE TABLE whole (n int PRIMARY KEY, t text) PARTITION BY RANGE (n)")
        op.execute("CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (9)")
        op.execute("CREATE TABLE other (n int PRIMARY KEY)")
        """,
        """
        with op.get_context().autocommit_block():
            op.execute("REINDEX TABLE CONCURRENTLY whole")
        """,
        lock_timeout_ms=150,
        lock_retry_s=0,
    )
    database.upgrade("r1")

    def invalid() -> list[str]:
        rows = database.rows("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid ORDER BY 1")
        return [name for (name,) in rows]

    with connect(database.target) as writer:
        writer.execute("LOCK TABLE part IN ROW EXCLUSIVE MODE")
        with pytest.raises(LockTimeoutError):
            database.upgrade()
    with connect(database.target) as writer, connect(database.target, autocommit=True, lock_timeout_ms=50) as other:
        writer.execute("LOCK TABLE part, other IN ROW EXCLUSIVE MODE")
        for table in ("part", "other"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(f"REINDEX TABLE CONCURRENTLY {table}")
    assert [re.sub(r"\d+", "", name) for name in invalid()] == [
        "other_pkey_ccnew",
        "part_pkey_ccnew",
        "pg_toast.pg_toast__index_ccnew",
    ]
    database.upgrade()
    assert invalid() == ["other_pkey_ccnew"]
    assert database.current() == ("r2",)


def test_ctrl_c_while_an_index_is_built(chain: Database) -> None:
    """It is not taken for a connection that broke, the server stops too, and the next run goes on."""
    chain.upgrade("r1")
    building = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' "
        "AND wait_event_type = 'Lock' AND datname = current_database()"
    )
    with connect(chain.target) as writer:
        writer.execute("LOCK TABLE item IN ROW EXCLUSIVE MODE")
        assert interrupt(chain, lambda: chain.value(building) == 1) == 130
        until(lambda: chain.value(building) == 0)
        assert chain.index("ix_item_n") == ("public.item USING btree (n)", False)
    chain.upgrade()
    assert_once(chain)


def test_a_deadlock_in_the_first_revision(database: Database, tmp_path: Path) -> None:
    """The version table was made in the transaction that goes back; the retry makes it again."""
    database.run("CREATE TABLE one (n int)", "CREATE TABLE two (n int)")
    database.config = project(
        tmp_path,
        """
        op.execute("SET LOCAL lock_timeout = 0")
        op.execute("SET LOCAL deadlock_timeout = '100ms'")
        op.execute("ALTER TABLE one ADD m int")
        op.execute("ALTER TABLE two ADD m int")
        """,
    )
    messages: list[str] = []
    failures: list[Exception] = []

    def upgrade() -> None:
        try:
            runner.upgrade(database.project, database.target, report=messages.append)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    with connect(database.target) as other:
        other.execute("LOCK TABLE two")
        thread = threading.Thread(target=upgrade)
        thread.start()
        until(
            lambda: database.value("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'two'::regclass") > 0
        )
        other.execute("LOCK TABLE one")
        other.rollback()
    thread.join(30)
    assert failures == []
    assert messages == ["r1 did not get a lock in time; attempt 2 follows."]
    assert database.current() == ("r1",)


def test_what_was_read_is_read_again_and_rows_that_a_write_returned_are_not_to_be_had(
    database: Database, tmp_path: Path
) -> None:
    body = """
    op.execute("CREATE TABLE item (n int)")
    with op.get_context().autocommit_block():
        n = op.get_bind().exec_driver_sql("SELECT 7").scalar_one()
        op.execute(f"INSERT INTO item VALUES ({n})")
        op.execute("SELECT 1/0")
    """
    database.config = project(tmp_path, body)
    with pytest.raises(RevisionError, match="division by zero"):
        database.upgrade()
    file = tmp_path / "history/versions/r1.py"
    returning = "assert op.get_bind().exec_driver_sql('INSERT INTO item VALUES (8) RETURNING n').scalar() == 8"
    file.write_text(
        file.read_text().replace('op.execute("SELECT 1/0")', f'{returning}\n        op.execute("SELECT 1/0")')
    )
    with pytest.raises(RevisionError, match="division by zero"):
        database.upgrade()
    assert database.rows("SELECT n FROM item") == [(7,), (8,)]
    file.write_text(file.read_text().replace("1/0", "1"))
    lost = r"statement 4, which stands committed, was INSERT INTO item VALUES \(8\) RETURNING n, and is needed again"
    with pytest.raises(RevisionError, match=lost):
        database.upgrade()
    assert database.rows("SELECT n FROM item") == [(7,), (8,)]


def test_a_procedure_that_commits(database: Database, tmp_path: Path) -> None:
    """It cannot share a transaction with its note, and nothing but the note says that it ran."""
    body = """
    op.execute("CREATE TABLE log (line text)")
    op.execute("CREATE PROCEDURE once() LANGUAGE plpgsql AS $$BEGIN INSERT INTO log VALUES ('once'); COMMIT; END$$")
    with op.get_context().autocommit_block():
        op.execute("CALL once()")
        op.execute("SELECT 1/0")
    """
    database.config = project(tmp_path, body)
    with pytest.raises(RevisionError, match=r"these stand committed, .* CALL once\(\); no revision"):
        database.upgrade()
    file = tmp_path / "history/versions/r1.py"
    file.write_text(file.read_text().replace("1/0", "1"))
    database.upgrade()
    assert database.rows("SELECT line FROM log") == [("once",)]


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
