"""A plain connection to the database of a test."""

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa


@pytest.fixture
def conninfo(head_database: str) -> str:
    """The database at head as libpq spells it."""
    return sa.make_url(head_database).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def connection(conninfo: str) -> Iterator[psycopg.Connection]:
    """A connection to the database at head, in UTC."""
    with psycopg.connect(conninfo, options="-c TimeZone=UTC") as connection:
        yield connection
