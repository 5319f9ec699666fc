"""A chain that must not run any of its statements twice, and a runner that dies in the middle of it."""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import psycopg
from alembic.config import main

from schema.migrate import runner
from tests.support.history import Database, until

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


def assert_once(database: Database) -> None:
    assert database.current() == ("r3",)
    assert database.rows("SELECT count(*), min(n), max(n) FROM item") == [(100, 2, 2)]
    assert database.rows("SELECT line FROM log") == [("first",), ("last",)]
    assert database.index("ix_item_n") == ("public.item USING btree (n)", True)
    # No trace.
    assert not database.table_exists("alembic_version_unfinished")
    until(lambda: database.runner_locks() == 0)


def alembic_in_forks(count: int, config: Path, url: str, *arguments: str) -> tuple[list[int], list[str]]:
    """Run plain `alembic` in as many processes at once; their exit codes, and what each wrote to stderr."""
    files = [config.with_name(f"stderr-{number}") for number in range(count)]
    children = [_fork() or _alembic(file, config, url, arguments) for file in files]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return codes, [file.read_text() for file in files]


def _alembic(stderr: Path, config: Path, url: str, arguments: tuple[str, ...]) -> NoReturn:
    code = 1
    with stderr.open("w") as sys.stderr:
        try:
            os.environ["SCHEMACTL_URL"] = url
            main(["-c", str(config), *arguments])
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
    os._exit(code)


def _fork() -> int:
    with warnings.catch_warnings():
        # Of the test runner's other thread; the child takes none of its locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _killed(database: Database, number: int) -> bool:
    """Run an upgrade, in a process of its own, that kills itself after a statement; False when it came to its end."""
    if child := _fork():
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


def interrupt(database: Database, when: Callable[[], bool]) -> int:
    """Run an upgrade in a process of its own, press Ctrl-C when it is time, and return its exit code."""
    child = _fork()
    if not child:
        code = 0
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            runner.upgrade(database.project, database.target)
        except KeyboardInterrupt:
            code = 130
        except BaseException:  # noqa: BLE001
            code = 1
        os._exit(code)
    until(when)
    os.kill(child, signal.SIGINT)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_and_go_on(database: Database, direct: Database, numbers: Iterable[int]) -> tuple[int, int]:
    """Let a run of r2 die after its statement of each number, and the next run end it, until one dies no more.

    `database` is where they run, `direct` the same one for a look. Returns how many died, and how many of those the
    next run recognised as unfinished.
    """
    database.upgrade("r1")
    died = recognised = 0
    for number in numbers:
        direct.run(
            f"DROP TABLE IF EXISTS log, {JOURNAL}",
            "DROP TABLE item",
            "CREATE TABLE item (id int, n int NOT NULL)",
            "UPDATE alembic_version SET version_num = 'r1'",
        )
        dying = _killed(database, number)
        # The server may need a moment to notice, and to end what the dead client asked for.
        until(lambda: direct.runner_locks() == 0)
        messages: list[str] = []
        runner.upgrade(database.project, database.target, report=messages.append)
        recognised += any("an earlier run ended in the middle of the upgrade to r2" in text for text in messages)
        assert_once(direct)
        if not dying:
            return died, recognised
        died += 1
    return died, recognised
