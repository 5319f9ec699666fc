"""Fixtures of the revisions' tests."""

import pytest

from tests.support.history import Database


@pytest.fixture
def database(empty_database: str) -> Database:
    """An empty database, to be moved through the history."""
    return Database(empty_database)
