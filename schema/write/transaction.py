"""What every write of several statements needs of its caller: a transaction."""

from sqlalchemy import Connection

from schema.errors import UsageError


def require_transaction(connection: Connection, what: str) -> None:
    """Refuse a connection that commits each statement: locks would be gone at once, and half of the rows could stay.

    Args:
        connection: the caller's.
        what: what cannot be done over it, for the message.

    Raises:
        UsageError: the connection is in autocommit.
    """
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise UsageError(
            f"{what} over a connection in autocommit: it takes several statements",
            hint="Use a connection whose transaction you commit.",
        )
