"""One runner at a time: an advisory lock of the database, on a connection of its own."""

import math
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg
import sqlalchemy as sa
from psycopg import IsolationLevel, sql

from schema.errors import DatabaseUnreachableError, LockTimeoutError
from schema.pg.connect import Connection, connect
from schema.pg.target import Target

RUNNER_LOCK: Final = int.from_bytes(b"schemact", "big")
"""Key of the advisory lock, the same in every release."""

_NAME: Final = "schemactl runner lock"

_HOLDER = """
SELECT pid, coalesce(nullif(substring(application_name FROM 'schemactl runner lock on (.*)'), ''),
    client_hostname, host(client_addr)), extract(epoch FROM clock_timestamp() - xact_start)::float
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid::bigint = %(key)s >> 32 AND objid::bigint = %(key)s & 4294967295
"""

_SEEN = """
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = :pid
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid::bigint = CAST(:key AS bigint) >> 32 AND objid::bigint = CAST(:key AS bigint) & 4294967295
)
"""

_SETTINGS = {
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # A host that dies without a word gives the lock back in a minute, and not in the two hours of the default.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}


@dataclass(frozen=True)
class Holder:
    """Who holds the runner's lock; host and seconds are None where the server does not let us see them."""

    pid: int
    """Of the server's process."""
    host: str | None
    seconds: float | None

    def __str__(self) -> str:
        host = f" for {self.host}" if self.host else ""
        age = "" if self.seconds is None else f", since {self.seconds:.0f} s"
        return f"server process {self.pid}{host}{age}"


@dataclass
class RunnerLock:
    """The lock, held."""

    connection: Connection
    _asked: float = -math.inf

    def check(self) -> None:
        """Make sure that it still is. The server is asked once a second; in between it is enough that it says nothing.

        Raises:
            DatabaseUnreachableError: its connection broke, so that another run may have begun.
        """
        try:
            poll = select.poll()
            poll.register(self.connection.fileno(), select.POLLIN)
            if not poll.poll(0) and time.monotonic() - self._asked < 1:
                return
            self.connection.execute("SELECT 1")
            self._asked = time.monotonic()
        except psycopg.Error as error:
            raise DatabaseUnreachableError(
                "the connection that holds this run's lock broke, so another run may have begun",
                hint="Run the command again; what was committed stays.",
            ) from error

    def guards(self, other: sa.Connection) -> bool:
        """Whether another connection leads to the database that this lock is for: whether the lock is seen there."""
        pid = self.connection.execute("SELECT pg_backend_pid()").fetchone()
        return pid is not None and bool(other.scalar(sa.text(_SEEN), {"key": RUNNER_LOCK, "pid": pid[0]}))


@contextmanager
def only_runner(target: Target, *, wait_s: float, report: Callable[[str], None]) -> Iterator[RunnerLock]:
    """Hold the runner's lock of a database, after waiting up to `wait_s` seconds for another runner to end.

    Raises:
        LockTimeoutError: the other runner did not end in time.
    """
    name = f"{_NAME} on {socket.gethostname()[:30]} ({os.getpid()})"
    with connect(target, application_name=name, settings=_SETTINGS) as connection:
        # Held by a transaction and not by the session, which behind a pooler is everybody's. It is no burden: with
        # READ COMMITTED a transaction that is idle and has written nothing has no snapshot that others wait for.
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        _take(connection, wait_s, report)
        yield RunnerLock(connection)


def runner_lock_holder(connection: psycopg.Connection) -> Holder | None:
    """Who is upgrading or downgrading this database just now."""
    row = connection.execute(_HOLDER, {"key": RUNNER_LOCK}).fetchone()
    return None if row is None else Holder(*row)


def _take(connection: Connection, wait_s: float, report: Callable[[str], None]) -> None:
    # By polling: a session that waits in pg_advisory_lock holds a snapshot, for which the other runner's CREATE INDEX
    # CONCURRENTLY waits in turn, a deadlock.
    deadline = time.monotonic() + wait_s
    pause = 0.05
    told = False
    while not _try(connection):
        holder = runner_lock_holder(connection)
        # So that the age of the transaction becomes the age of the lock.
        connection.rollback()
        who = f" ({holder})" if holder else ""
        if time.monotonic() + pause > deadline:
            raise LockTimeoutError(
                f"another run is upgrading or downgrading this database{who}, and did not end within {wait_s:g} s",
                hint="Run the command again when it has ended; runner_wait_s in alembic.ini sets how long to wait.",
            )
        if not told:
            report(f"Another run is at work on this database{who}; waiting up to {wait_s:g} s for it.")
            told = True
        time.sleep(pause)
        pause = min(pause * 2, 1.0)


def _try(connection: Connection) -> bool:
    # PostgreSQL 17 and newer end long transactions where an administrator says so; older ones lack the setting.
    lasting = ", set_config('transaction_timeout', '0', true)" if connection.info.server_version >= 170000 else ""
    # Without a parameter, so that it goes by the simple protocol: of the other one a portal is left open until the next
    # statement, and with it a snapshot for which CREATE INDEX CONCURRENTLY of the run itself would wait for ever.
    taking = sql.SQL("SELECT pg_try_advisory_xact_lock({})" + lasting).format(sql.Literal(RUNNER_LOCK))
    row = connection.execute(taking).fetchone()
    return row is not None and bool(row[0])
