"""What holds of the models as a whole, and of the database they make."""

import subprocess
import sys

import pytest
import sqlalchemy as sa

from schema.environ import ENVIRON_KEY_PATTERN
from schema.models import Base, metadata
from tests.support.history import Database

TABLES = 25


def test_importing_any_part_of_the_models_registers_every_table() -> None:
    code = "import schema.models.kernels as k; print(len(k.Base.metadata.tables))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(metadata.tables) == len(Base.registry.mappers) == TABLES


def test_names_of_the_models_fit_in_63_bytes() -> None:
    names = [name for table in metadata.tables.values() for name in _names(table)]
    assert len(names) > 100
    assert [name for name in names if len(name.encode()) > 63] == []


def _names(table: sa.Table) -> list[str]:
    parts = [table, *table.columns, *table.indexes, *table.constraints]
    dialect = sa.make_url("postgresql+psycopg://").get_dialect()()
    preparer = dialect.identifier_preparer
    return [
        str(preparer.format_constraint(part)) if isinstance(part, sa.Constraint) else str(part.name) for part in parts
    ]


def test_names_at_head_are_those_of_the_models(history_database: Database) -> None:
    """A name over 63 bytes would be cut by the server, and then differ."""
    made = history_database.rows(
        "SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n' "
        "UNION SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indrelid "
        "WHERE relnamespace = 'public'::regnamespace"
    )
    wanted = {
        name
        for table in metadata.tables.values()
        for name in _names(table)
        if name != table.name and name not in table.columns
    }
    assert {row[0] for row in made} - {"alembic_version_pkc"} == wanted


@pytest.mark.parametrize("table", ["kernel_group_environ", "system_session_environ"])
def test_the_key_check_at_head_is_the_one_constant(history_database: Database, table: str) -> None:
    definition = history_database.constraint(f"ck_{table}_key_format")
    assert definition == (f"CHECK (((key)::text ~ '{ENVIRON_KEY_PATTERN}'::text))", True)
