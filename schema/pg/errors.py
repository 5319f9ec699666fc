"""Turns a driver's exception into one of ours, by SQLSTATE.

Only the server's primary message is kept: DETAIL and the parameters of a statement may hold an environment value.
"""

import re

import psycopg
import sqlalchemy as sa

from schema.errors import (
    AuthenticationError,
    DatabaseError,
    DatabaseUnreachableError,
    DiskFullError,
    LockTimeoutError,
    PrivilegeError,
    ReadOnlyError,
    SchemaError,
    StatementTimeoutError,
)

_STARTING_UP = re.compile(r"the database system is (starting up|not yet accepting connections|in recovery mode)")

# "Is the server running ...?" is what our hint asks too.
_NOT_TOLD = re.compile(r"^connection (failed|is bad): |\n(DETAIL|CONTEXT):[^\n]*|\n\tIs the server[^\n]*")

# psycopg's list, when a URL names several hosts, behind the last of these failures.
_ATTEMPT = re.compile(r"^- host: .*?, hostaddr: [^:]*: (.*)", re.MULTILINE)

# A failed connection has no SQLSTATE in psycopg, so the server's words have to do. Where a server speaks another
# language than English, the general class is used, with its message.
_REFUSALS: tuple[tuple[str, type[DatabaseError], str | None], ...] = (
    (r"authentication failed|no password supplied|pg_hba\.conf|not permitted to log in", AuthenticationError, None),
    (r'role "[^"]*" does not exist', AuthenticationError, "Check the user in the URL."),
    (
        r'database "[^"]*" does not exist',
        DatabaseUnreachableError,
        "Create it first (createdb), or correct the name in the URL.",
    ),
    (r"permission denied for database", PrivilegeError, None),
    (
        r"unsupported startup parameter",
        DatabaseUnreachableError,
        "A pooler refuses the options of the URL or of PGOPTIONS: leave them out, or name PostgreSQL itself.",
    ),
    (
        r"too many clients|too many connections|connection slots",
        DatabaseUnreachableError,
        "The server has no connection left; try again later.",
    ),
    (r"session is read-only", DatabaseUnreachableError, ReadOnlyError.default_hint),
    (r"the database system is", DatabaseUnreachableError, "Wait until the server is up, then run the command again."),
)

_UPGRADE_HINT = (
    "The database is not at the revision that this command needs: run `schemactl upgrade` first. Where it is at the"
    " head, search_path leads the role to another schema."
)
_AGAIN_HINT = "Run the command again; what was committed stays."

_BY_STATE: dict[str, tuple[type[DatabaseError], str | None]] = {
    "3D000": (DatabaseUnreachableError, "Create it first (createdb), or correct the name in the URL."),
    "25006": (ReadOnlyError, None),
    "3F000": (DatabaseError, "Correct the search_path of the role or the database, or set it in the URL's options."),
    "40001": (DatabaseError, _AGAIN_HINT),
    "40P01": (DatabaseError, _AGAIN_HINT),
    "42501": (PrivilegeError, None),
    "42703": (DatabaseError, _UPGRADE_HINT),
    "42P01": (DatabaseError, _UPGRADE_HINT),
    "53100": (DiskFullError, None),
    "53300": (DatabaseUnreachableError, "The server has no connection left; try again later."),
    "55P03": (LockTimeoutError, None),
    "57014": (StatementTimeoutError, None),
    "57P01": (DatabaseUnreachableError, _AGAIN_HINT),
    "57P02": (DatabaseUnreachableError, _AGAIN_HINT),
    "57P03": (DatabaseUnreachableError, _AGAIN_HINT),
}
_BY_CLASS: dict[str, tuple[type[DatabaseError], str | None]] = {
    "08": (DatabaseUnreachableError, None),
    "28": (AuthenticationError, None),
}


def translate(error: BaseException) -> SchemaError | None:
    """Return our exception for a psycopg or SQLAlchemy one, None for any other.

    Passwords, parameters of statements and DETAIL are left out. The caller chains it: `raise translate(e) from e`.
    """
    if isinstance(error, sa.exc.StatementError):
        cause = error.orig
        if isinstance(cause, SchemaError):
            return cause
        if isinstance(cause, psycopg.Error):
            return _from_psycopg(cause)
        return DatabaseError(f"a statement could not be made ({type(cause or error).__name__})")
    if isinstance(error, sa.exc.SQLAlchemyError):
        return DatabaseError(f"{type(error).__name__}: {_line(str(error))}")
    if isinstance(error, psycopg.Error):
        return _from_psycopg(error)
    return None


def is_starting_up(error: psycopg.Error) -> bool:
    """Whether a refused connection is worth another try, because the server is only just starting."""
    return error.sqlstate == "57P03" or _STARTING_UP.search(str(error)) is not None


def _from_psycopg(error: psycopg.Error) -> SchemaError:
    state = error.sqlstate
    if state is None:
        return _without_state(error)
    message = error.diag.message_primary or str(error)
    if state.startswith("22"):
        # Data exceptions quote the value that they could not read. The message may go to a database of any encoding.
        message = re.sub(r': ".*"', ': "..."', message, flags=re.DOTALL)
    kind, hint = _BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or (DatabaseError, None)
    return kind(f"PostgreSQL says: {_line(message)} (SQLSTATE {state})", hint=hint)


def _without_state(error: psycopg.Error) -> SchemaError:
    attempts = dict.fromkeys(_ATTEMPT.findall(str(error))) or [str(error)]
    message = "; ".join(_line(_NOT_TOLD.sub("", attempt)) for attempt in attempts)
    if not isinstance(error, psycopg.OperationalError):
        return DatabaseError(f"{type(error).__name__}: {message}")
    for pattern, kind, hint in _REFUSALS:
        if re.search(pattern, message):
            return kind(message, hint=hint)
    return DatabaseUnreachableError(message)


def _line(text: str) -> str:
    return " ".join(text.split())
