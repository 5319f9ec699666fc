"""Exceptions that come without a SQLSTATE or not from the driver at all."""

import psycopg
import pytest
import sqlalchemy as sa

from schema.errors import (
    AuthenticationError,
    DatabaseError,
    DatabaseUnreachableError,
    DiskFullError,
    InvalidValueError,
    PrivilegeError,
    SchemaError,
)
from schema.pg.errors import is_starting_up, translate


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), OSError()])
def test_other_exceptions_are_not_ours(error: BaseException) -> None:
    assert translate(error) is None


@pytest.mark.parametrize(
    ("message", "kind", "hint"),
    [
        ('connection failed: FATAL:  password authentication failed for user "u"', AuthenticationError, "PGPASSWORD"),
        ("connection failed: fe_sendauth: no password supplied", AuthenticationError, "PGPASSWORD"),
        ('connection failed: FATAL:  no pg_hba.conf entry for host "h"', AuthenticationError, "pg_hba.conf"),
        ('connection failed: FATAL:  role "u" does not exist', AuthenticationError, "user in the URL"),
        ('connection failed: FATAL:  role "u" is not permitted to log in', AuthenticationError, "user"),
        ('connection failed: FATAL:  database "d" does not exist', DatabaseUnreachableError, "createdb"),
        ('connection failed: FATAL:  permission denied for database "d"', PrivilegeError, "privileges.md"),
        ("connection failed: FATAL:  sorry, too many clients already", DatabaseUnreachableError, "try again"),
        ("connection failed: FATAL:  unsupported startup parameter: options", DatabaseUnreachableError, "pooler"),
        ("connection failed: FATAL:  the database system is shutting down", DatabaseUnreachableError, "Wait"),
        ("connection is bad: no such file", DatabaseUnreachableError, "schemactl status"),
        ("server closed the connection unexpectedly", DatabaseUnreachableError, "schemactl status"),
    ],
)
def test_refused_connections(message: str, kind: type[SchemaError], hint: str) -> None:
    translated = translate(psycopg.OperationalError(message))
    assert type(translated) is kind
    assert not translated.message.startswith("connection ")
    assert "  " not in translated.message
    assert hint in translated.hint


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (psycopg.errors.DiskFull, DiskFullError, "Free space"),
        (psycopg.errors.DeadlockDetected, DatabaseError, "again"),
        (psycopg.errors.SerializationFailure, DatabaseError, "again"),
        (psycopg.errors.AdminShutdown, DatabaseUnreachableError, "again"),
        (psycopg.errors.CrashShutdown, DatabaseUnreachableError, "again"),
        (psycopg.errors.CannotConnectNow, DatabaseUnreachableError, "again"),
        (psycopg.errors.ConnectionFailure, DatabaseUnreachableError, "schemactl status"),
        (psycopg.errors.InvalidPassword, AuthenticationError, "PGPASSWORD"),
        (psycopg.errors.InvalidCatalogName, DatabaseUnreachableError, "createdb"),
        (psycopg.errors.TooManyConnections, DatabaseUnreachableError, "later"),
        (psycopg.errors.UndefinedColumn, DatabaseError, "schemactl upgrade"),
        (psycopg.errors.SyntaxError, DatabaseError, ""),
    ],
)
def test_by_state(error: type[psycopg.Error], kind: type[SchemaError], hint: str) -> None:
    translated = translate(error("what happened"))
    assert type(translated) is kind
    assert translated.message == f"PostgreSQL says: what happened (SQLSTATE {error.sqlstate})"
    assert hint in translated.hint


def test_the_detail_of_a_refused_connection_is_left_out() -> None:
    error = translate(psycopg.OperationalError("connection failed: FATAL:  no\nDETAIL:  s3cr3t\nHINT:  this"))
    assert error is not None
    assert error.message == "FATAL: no HINT: this"


def test_the_client_library_asks_nothing() -> None:
    error = translate(
        psycopg.OperationalError(
            'connection failed: connection to server at "h", port 1 failed: Connection refused\n'
            "\tIs the server running on that host and accepting TCP/IP connections?\n"
            'connection to server on socket "/s" failed: No such file or directory\n'
            "\tIs the server running locally and accepting connections on that socket?"
        )
    )
    assert error is not None
    assert error.message == (
        'connection to server at "h", port 1 failed: Connection refused '
        'connection to server on socket "/s" failed: No such file or directory'
    )


def test_our_own_error_inside_a_statement_comes_through() -> None:
    ours = InvalidValueError("the environment key is bad")
    error = sa.exc.StatementError(str(ours), "INSERT ...", {"value": "s3cr3t"}, ours)
    assert translate(error) is ours


def test_parameters_of_a_statement_that_could_not_be_made_are_not_told() -> None:
    error = sa.exc.StatementError("'s3cr3t' is no uuid", "INSERT ...", {"value": "s3cr3t"}, TypeError("s3cr3t"))
    translated = translate(error)
    assert isinstance(translated, DatabaseError)
    assert translated.message == "a statement could not be made (TypeError)"


def test_sqlalchemy_errors_without_a_statement() -> None:
    translated = translate(sa.exc.NoSuchTableError("kernels"))
    assert isinstance(translated, DatabaseError)
    assert translated.message == "NoSuchTableError: kernels"


@pytest.mark.parametrize("words", ["is starting up", "is not yet accepting connections", "is in recovery mode"])
def test_starting_up(words: str) -> None:
    assert is_starting_up(psycopg.OperationalError(f"connection failed: FATAL:  the database system {words}"))
    assert not is_starting_up(psycopg.OperationalError("FATAL:  the database system is shutting down"))
