"""Keeps environment values out of the errors of statements that carry them."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import StatementError


@contextmanager
def hidden_parameters() -> Iterator[None]:
    """Leave values out of an error's text, whatever the application's engine is set to.

    Neither the statement's parameters are kept, nor the server's DETAIL and CONTEXT: DETAIL quotes the row that a CHECK
    or a NOT NULL refused. The error's class, its SQLSTATE and its `diag` are as they were.
    """
    try:
        yield
    except StatementError as error:
        error.hide_parameters = True
        if isinstance(error.orig, psycopg.Error) and (primary := error.orig.diag.message_primary):
            kind = type(error.orig)
            error.orig.args = (primary,)
            error.args = (f"({kind.__module__}.{kind.__name__}) {primary}",)
        raise
