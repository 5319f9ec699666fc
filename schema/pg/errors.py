"""Turns a driver's exception into one of ours, by SQLSTATE."""

from schema.errors import SchemaError


def translate(error: BaseException) -> SchemaError | None:
    """Return our exception for a psycopg or SQLAlchemy one, None for any other."""
    raise NotImplementedError(error)
