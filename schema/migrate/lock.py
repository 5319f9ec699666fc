"""One runner at a time: an advisory lock of the database, on a connection of its own."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from schema.errors import LockTimeoutError
from schema.pg.connect import connect
from schema.pg.target import Target

RUNNER_LOCK: Final = int.from_bytes(b"schemact", "big")
"""Key of the advisory lock, the same in every release."""

_HOLDER = """
SELECT pid, application_name
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid::bigint = %(key)s >> 32 AND objid::bigint = %(key)s & 4294967295
"""


@contextmanager
def only_runner(target: Target, *, wait_s: float, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the runner's lock of a database, after waiting up to `wait_s` seconds for another runner to end.

    Raises:
        LockTimeoutError: the other runner did not end in time.
    """
    # Taken by polling: a session that waits in pg_advisory_lock holds a snapshot, for which the other runner's CREATE
    # INDEX CONCURRENTLY waits in turn, a deadlock. Autocommit for the same reason: idle, it holds no snapshot.
    with connect(
        target,
        application_name="schemactl runner lock",
        autocommit=True,
        settings={"idle_session_timeout": "0"},
    ) as connection:
        _take(connection, wait_s, report)
        yield


def _take(connection: psycopg.Connection, wait_s: float, report: Callable[[str], None]) -> None:
    deadline = time.monotonic() + wait_s
    pause = 0.05
    told = False
    while not _try(connection):
        if time.monotonic() + pause > deadline:
            raise LockTimeoutError(
                f"another run is upgrading or downgrading this database{_holder(connection)}, "
                f"and did not end within {wait_s:g} s",
                hint="Run the command again when it has ended; runner_wait_s in alembic.ini sets how long to wait.",
            )
        if not told:
            report(f"Another run is at work on this database{_holder(connection)}; waiting up to {wait_s:g} s for it.")
            told = True
        time.sleep(pause)
        pause = min(pause * 2, 1.0)


def _try(connection: psycopg.Connection) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", [RUNNER_LOCK]).fetchone()
    return row is not None and bool(row[0])


def _holder(connection: psycopg.Connection) -> str:
    row = connection.execute(_HOLDER, {"key": RUNNER_LOCK}).fetchone()
    return "" if row is None else f" (server process {row[0]})"
