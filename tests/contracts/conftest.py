"""Fixtures of the contract tests."""

import pytest

from tests.support.history import Database


@pytest.fixture
def history_database(empty_database: str) -> Database:
    """A database that went through the whole history."""
    database = Database(empty_database)
    database.upgrade()
    return database
