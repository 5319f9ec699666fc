"""Connections and engines, with their timeouts in place from the first statement on."""

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.pool import NullPool

from schema.pg.errors import is_starting_up, translate
from schema.pg.target import Target

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10
STARTUP_PATIENCE_S = 30.0
"""How long a server that says "starting up" is waited for."""


def connect(
    target: Target,
    *,
    application_name: str = "schemactl",
    autocommit: bool = False,
    lock_timeout_ms: int | None = None,
    statement_timeout_ms: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> psycopg.Connection:
    """Open a connection, in UTC, that never prepares statements by itself.

    The timeouts (0 means none, None leaves the server's) and `settings` are in force before the first statement, and
    come back after RESET. An application_name or connect_timeout in the URL wins over the ones here.

    Raises:
        DatabaseError: no connection could be made; the class says why.
    """
    parameters = _parameters(target, application_name, lock_timeout_ms, statement_timeout_ms, settings)
    try:
        return _patiently(
            lambda: psycopg.connect(target.conninfo, autocommit=autocommit, prepare_threshold=None, **parameters)
        )
    except psycopg.Error as error:
        raise translate(error) or error from error


def connect_pooled(
    target: Target, *, application_name: str = "schemactl", primary: bool = False
) -> psycopg.Connection[tuple[Any, ...]]:
    """Open an autocommit connection that may go through a pooler in transaction mode.

    A pooler refuses options at the start and hands the session to others between transactions, so none are sent and
    no statement is prepared: what a transaction needs it sets itself, by SET LOCAL. Options that the URL or PGOPTIONS
    give are sent, as somebody wanted them.

    Args:
        target: where to.
        application_name: the name in pg_stat_activity; one in the URL wins.
        primary: of several hosts in the URL, take one that accepts writes.

    Raises:
        DatabaseError: no connection could be made; the class says why.
    """
    parameters = _named(target, application_name)
    if primary:
        parameters["target_session_attrs"] = "read-write"
    try:
        return _patiently(
            lambda: psycopg.connect(target.conninfo, autocommit=True, prepare_threshold=None, **parameters)
        )
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
    parameters = _parameters(target, application_name, lock_timeout_ms, statement_timeout_ms, settings)
    made = sa.create_engine(
        target.url,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"prepare_threshold": None, **parameters},
    )

    @sa.event.listens_for(made, "do_connect")
    def _connect(dialect: sa.Dialect, _record: object, arguments: list[Any], keywords: dict[str, Any]) -> object:
        return _patiently(lambda: dialect.connect(*arguments, **keywords))

    return made


def _parameters(
    target: Target,
    application_name: str,
    lock_timeout_ms: int | None,
    statement_timeout_ms: int | None,
    settings: Mapping[str, str] | None,
) -> dict[str, Any]:
    given = conninfo_to_dict(target.conninfo)
    wanted = {"TimeZone": "UTC", **(settings or {})}
    if lock_timeout_ms is not None:
        wanted["lock_timeout"] = f"{lock_timeout_ms}ms"
    if statement_timeout_ms is not None:
        wanted["statement_timeout"] = f"{statement_timeout_ms}ms"
    # Options given here replace those of the environment, so they are carried over.
    options = [str(given.get("options") or os.environ.get("PGOPTIONS", ""))]
    options += [f"-c {name}={_escaped(value)}" for name, value in wanted.items()]
    return {"options": " ".join(filter(None, options)), **_named(target, application_name)}


def _named(target: Target, application_name: str) -> dict[str, Any]:
    given = conninfo_to_dict(target.conninfo)
    parameters: dict[str, Any] = {}
    if "application_name" not in given:
        parameters["application_name"] = application_name
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
