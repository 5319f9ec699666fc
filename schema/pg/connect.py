"""Connections and engines, with their timeouts in place from the first statement on."""

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.pool import NullPool

from schema.pg.errors import is_starting_up, translate
from schema.pg.target import Target

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10
STARTUP_PATIENCE_S = 30.0
"""How long a server that says "starting up" is waited for."""


class Connection(psycopg.Connection):
    """A connection that keeps its settings behind a pooler too.

    A pooler such as PgBouncer refuses or drops the options of a connection, and in transaction mode gives each
    transaction to any of its server sessions, where a plain SET would stay behind for others. So there the settings
    are made at the beginning of each transaction, for that one only. Statements outside of one go without them.
    """

    local_settings: Mapping[str, str] | None = None
    """Set behind a pooler: what each transaction begins with."""

    def _exec_command(self, command: Any, result_format: pq.Format = pq.Format.TEXT) -> Any:
        # psycopg sends every BEGIN through here: its own before a statement, and that of transaction().
        result = yield from super()._exec_command(command, result_format)
        if self.local_settings and isinstance(command, bytes) and command.startswith(b"BEGIN"):
            calls = [
                sql.SQL("set_config({}, {}, true)").format(name, value) for name, value in self.local_settings.items()
            ]
            yield from super()._exec_command(sql.SQL("SELECT {}").format(sql.SQL(", ").join(calls)), result_format)
        return result


def is_pooled(connection: object) -> bool:
    """Whether a driver's connection goes through a pooler, which may give each transaction to another session."""
    return isinstance(connection, Connection) and connection.local_settings is not None


def local_settings(connection: object) -> Mapping[str, str]:
    """What each transaction of a driver's connection begins with."""
    return (connection.local_settings or {}) if isinstance(connection, Connection) else {}


def connect(
    target: Target,
    *,
    application_name: str = "schemactl",
    autocommit: bool = False,
    lock_timeout_ms: int | None = None,
    statement_timeout_ms: int | None = None,
    settings: Mapping[str, str] | None = None,
    primary: bool = False,
) -> Connection:
    """Open a connection, in UTC, that never prepares statements by itself.

    The timeouts (0 means none, None leaves the server's) and `settings` are in force before the first statement, and
    come back after RESET; behind a pooler they are in force in transactions only, see `Connection`. An
    application_name or connect_timeout in the URL wins over the ones here. With `primary`, of several hosts in the URL
    one that accepts writes is taken.

    Raises:
        DatabaseError: no connection could be made; the class says why.
    """
    wanted = _settings(lock_timeout_ms, statement_timeout_ms, settings)
    parameters = _parameters(target, application_name)
    if primary:
        parameters["target_session_attrs"] = "read-write"
    try:
        return _open(target, wanted, lambda options: _psycopg(target, autocommit, parameters, options))
    except psycopg.Error as error:
        raise translate(error) or error from error


def engine(
    target: Target,
    *,
    application_name: str = "schemactl",
    lock_timeout_ms: int | None = None,
    statement_timeout_ms: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> sa.Engine:
    """Make an engine without a pool, whose connections are like those of `connect`.

    Timeouts are options of the connection: set by a statement before Alembic begins, they would open a transaction
    that Alembic takes for somebody else's, and one transaction per migration would silently be off.
    """
    wanted = _settings(lock_timeout_ms, statement_timeout_ms, settings)
    parameters = _parameters(target, application_name)
    made = sa.create_engine(target.url, poolclass=NullPool, hide_parameters=True)

    @sa.event.listens_for(made, "do_connect")
    def _connect(*_: object) -> object:
        return _open(target, wanted, lambda options: _psycopg(target, False, parameters, options))

    return made


def connection_options(target: Target, wanted: Mapping[str, str]) -> str:
    """The `options` parameter of libpq that puts settings in force, after those of the URL or the environment."""
    return " ".join(filter(None, [_given_options(target), *(f"-c {n}={_escaped(v)}" for n, v in wanted.items())]))


def _settings(
    lock_timeout_ms: int | None, statement_timeout_ms: int | None, settings: Mapping[str, str] | None
) -> dict[str, str]:
    # psycopg reads dates and intervals in these styles alone; a role or a database may have others.
    wanted = {"TimeZone": "UTC", "DateStyle": "ISO", "IntervalStyle": "postgres", **(settings or {})}
    if lock_timeout_ms is not None:
        wanted["lock_timeout"] = f"{lock_timeout_ms}ms"
    if statement_timeout_ms is not None:
        wanted["statement_timeout"] = f"{statement_timeout_ms}ms"
    return wanted


def _open(target: Target, wanted: Mapping[str, str], attempt: Callable[[str], Connection]) -> Connection:
    """Connect with the settings as options; behind a pooler that refuses or drops those, see `Connection`."""
    try:
        opened = _patiently(lambda: attempt(connection_options(target, wanted)))
    except psycopg.OperationalError as error:
        # A pooler that refuses the person's own options has the last word.
        if "unsupported startup parameter" not in str(error) or _given_options(target):
            raise
        opened = _patiently(lambda: attempt(""))
    # A pooler makes its own key for cancelling, in which a server says its process. By the bare protocol: psycopg
    # would begin a transaction.
    answer = opened.pgconn.exec_(b"SELECT pg_backend_pid()").get_value(0, 0)
    if answer != str(opened.info.backend_pid).encode():
        opened.local_settings = wanted
    elif os.environ.keys() & {"PGTZ", "PGDATESTYLE"}:
        # libpq sends these two beside the options, and the server lets them win.
        for name in ("TimeZone", "DateStyle"):
            opened.pgconn.exec_params(b"SELECT set_config($1, $2, false)", [name.encode(), wanted[name].encode()])
    return opened


def _psycopg(target: Target, autocommit: bool, parameters: Mapping[str, Any], options: str) -> Connection:
    return Connection.connect(
        target.conninfo, autocommit=autocommit, prepare_threshold=None, options=options, **parameters
    )


def _given_options(target: Target) -> str:
    # Options given to libpq replace those of the environment, so they are carried over.
    return str(conninfo_to_dict(target.conninfo).get("options") or os.environ.get("PGOPTIONS", ""))


def _parameters(target: Target, application_name: str) -> dict[str, Any]:
    given = conninfo_to_dict(target.conninfo)
    parameters: dict[str, Any] = {}
    if "application_name" not in given:
        parameters["application_name"] = application_name
    if "client_encoding" not in given:
        # psycopg returns bytes where a role, a database or the environment has SQL_ASCII.
        parameters["client_encoding"] = "UTF8"
    if "connect_timeout" not in given:
        parameters["connect_timeout"] = CONNECT_TIMEOUT_S
    return parameters


def _escaped(value: str) -> str:
    return re.sub(r"([\s\\])", r"\\\1", value)


def _patiently(attempt: Callable[[], T]) -> T:
    """Try again, for a while, when the server says that it is only just starting."""
    deadline = time.monotonic() + STARTUP_PATIENCE_S
    pause = 0.05
    while True:
        try:
            return attempt()
        except psycopg.OperationalError as error:
            if not is_starting_up(error) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 1.0)
