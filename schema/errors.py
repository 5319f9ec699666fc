"""The one exception tree. Each class carries the exit code that `schemactl` ends with, and what to do next."""

import re
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of `schemactl`; a documented contract."""

    OK = 0
    FAILED = 1
    USAGE = 2
    FINDINGS = 3
    MORE_WORK = 4
    REJECTS = 5
    MISMATCH = 6
    INTERRUPTED = 130


_URL_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s@]+@")


class SchemaError(Exception):
    """Something could not be done.

    The message says what and where; `hint` says what to do next. Neither ever holds a password or an environment
    value. Subclasses with nothing better to say let their class hint stand.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        # The message may quote another program's or a project's own exception, which takes no such care.
        message = _URL_PASSWORD.sub(r"\1***@", message)
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint


class UsageError(SchemaError):
    """The command was called with words or files that make no sense together."""

    exit_code = ExitCode.USAGE


class InvalidValueError(SchemaError, ValueError):
    """A value that a person wrote cannot be read: a quantity, an environment key, a role."""


class ConfigError(SchemaError):
    """`alembic.ini`, `pyproject.toml` or a migration environment cannot be read."""

    exit_code = ExitCode.USAGE


class DatabaseError(SchemaError):
    """The database refused or broke off an operation."""


class DatabaseUnreachableError(DatabaseError):
    """No connection could be made."""

    default_hint = "Check host, port and that the server is running; `schemactl status` shows which database is meant."


class AuthenticationError(DatabaseUnreachableError):
    """The server does not let this user in."""

    default_hint = "Check user and password in the URL, PGPASSWORD or ~/.pgpass, and the server's pg_hba.conf."


class PrivilegeError(DatabaseError):
    """The role may not do what the command needs."""

    default_hint = "docs/privileges.md lists what each command needs."


class ReadOnlyError(DatabaseError):
    """The server takes no writes: a standby, or `default_transaction_read_only`."""

    default_hint = (
        "Point --url at the primary; where it is the primary, default_transaction_read_only is on for the role or the"
        " database."
    )


class LockTimeoutError(DatabaseError):
    """A lock was not to be had in the time allowed, retries included."""

    default_hint = "See who holds it in pg_stat_activity and pg_locks, then run the command again."


class StatementTimeoutError(DatabaseError):
    """A statement was cancelled: it ran longer than statement_timeout allows, or somebody cancelled it."""

    default_hint = "What was committed before stays; run the command again, with a longer timeout if need be."


class DiskFullError(DatabaseError):
    """The server has no disk space left."""

    default_hint = "Free space on the server's disk, then run the command again."


class ServerError(SchemaError):
    """The embedded or a scratch PostgreSQL server cannot be made, started or stopped."""


class RevisionError(SchemaError):
    """A revision is unknown, ambiguous, or failed to run."""


class MoreWorkError(SchemaError):
    """The operation stopped on request with work left; the same command goes on."""

    exit_code = ExitCode.MORE_WORK
