import psycopg
import pytest

from tests.support.history import Database

FK = "fk_kernels_kernel_group_id_kernel_groups"
DEFINITION = "FOREIGN KEY (kernel_group_id) REFERENCES kernel_groups(id) ON DELETE RESTRICT NOT VALID"


def test_kernels_kernel_group_id(database: Database) -> None:
    database.upgrade("1a6d9e3f5c28")
    database.seed(2)
    before = database.catalog()
    filenode = "SELECT pg_relation_filenode('kernels')"
    stored = database.value(filenode)

    database.upgrade("92b7e4d10f6a")
    assert database.constraint(FK) == (DEFINITION, False)
    assert database.value(filenode) == stored
    assert database.rows("SELECT count(*), count(kernel_group_id) FROM kernels") == [(4, 0)]
    # Not yet validated, it holds for new values all the same.
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match=FK):
        database.run("UPDATE kernels SET kernel_group_id = gen_random_uuid()")

    database.run("INSERT INTO kernel_groups (session_id, role) SELECT DISTINCT session_id, 'main' FROM kernels")
    database.run(
        "UPDATE kernels SET kernel_group_id = g.id FROM kernel_groups g "
        "WHERE g.session_id = kernels.session_id AND cluster_role = role"
    )
    assert database.value("SELECT count(kernel_group_id) FROM kernels") == 2
    with pytest.raises(psycopg.errors.IntegrityError, match=FK):
        database.run("DELETE FROM kernel_groups")

    database.downgrade("1a6d9e3f5c28")
    assert database.catalog() == before
    assert database.value("SELECT count(*) FROM kernels") == 4
