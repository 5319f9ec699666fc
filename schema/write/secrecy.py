"""Keeps environment values out of the errors of statements that carry them."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import StatementError


@contextmanager
def hidden_parameters() -> Iterator[None]:
    """Leave the parameters out of an error's text, whatever the application's engine is set to."""
    try:
        yield
    except StatementError as error:
        error.hide_parameters = True
        raise
