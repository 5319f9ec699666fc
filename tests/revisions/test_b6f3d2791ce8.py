import psycopg
import pytest

from tests.support.history import Database

INDEX = "ix_kernels_kernel_group_id"
DEFINITION = "public.kernels USING btree (kernel_group_id)"


def test_kernels_kernel_group_id_index(database: Database) -> None:
    database.upgrade("5e0c8a3b71d4")
    database.seed(2)
    assert database.index(INDEX) is None
    database.upgrade("b6f3d2791ce8")
    assert database.index(INDEX) == (DEFINITION, True)
    database.downgrade("5e0c8a3b71d4")
    assert database.index(INDEX) is None
    assert database.value("SELECT count(*) FROM kernels") == 4


def test_an_invalid_leftover_is_replaced(database: Database) -> None:
    database.upgrade("5e0c8a3b71d4")
    database.seed(2)
    with pytest.raises(psycopg.errors.UniqueViolation):
        database.run(f"CREATE UNIQUE INDEX CONCURRENTLY {INDEX} ON kernels (cluster_role)")
    assert database.index(INDEX) == ("public.kernels USING btree (cluster_role)", False)
    database.upgrade("b6f3d2791ce8")
    assert database.index(INDEX) == (DEFINITION, True)
