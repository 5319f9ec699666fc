"""pytest-alembic's own tests, bound by hand: its collector predates this pytest."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic.config import Config
from pytest_alembic import create_alembic_fixture, tests
from pytest_alembic.runner import MigrationContext

from schema.pg.connect import engine
from tests.support.history import INI, Database


@pytest.fixture
def alembic_engine(database: Database) -> Iterator[sa.Engine]:
    made = engine(database.target)
    yield made
    made.dispose()


history = create_alembic_fixture(Config(str(INI)))


def test_single_head_revision(history: MigrationContext) -> None:
    tests.test_single_head_revision(history)


def test_upgrade(history: MigrationContext) -> None:
    tests.test_upgrade(history)


def test_model_definitions_match_ddl(history: MigrationContext) -> None:
    tests.test_model_definitions_match_ddl(history)


def test_up_down_consistency(history: MigrationContext) -> None:
    tests.test_up_down_consistency(history)
