import psycopg
import pytest

from tests.support.history import Database

GROUP = "INSERT INTO kernel_groups (session_id, role, image_id) SELECT s.id, 'main', i.id FROM sessions s, images i"
SLOT = (
    "INSERT INTO kernel_group_resource_slots (kernel_group_id, slot_name, quantity) "
    "SELECT id, %s, %s FROM kernel_groups"
)
ENVIRON = "INSERT INTO kernel_group_environ (kernel_group_id, key, value) SELECT id, %s, 'x' FROM kernel_groups"


def refused(database: Database, constraint: str, statement: str, *parameters: object) -> None:
    with database.connection() as connection, pytest.raises(psycopg.IntegrityError) as error:
        connection.execute(statement, parameters or None)
    assert error.value.diag.constraint_name == constraint


def test_kernel_group_tables(database: Database) -> None:
    database.upgrade("e7f4c2a98b10")
    database.seed(1)
    before = database.catalog()
    database.upgrade("1a6d9e3f5c28")
    database.run(GROUP)
    with database.connection() as connection:
        connection.execute(SLOT, ["cpu", "0.5"])
        connection.execute(ENVIRON, ["PATH"])
    assert database.rows("SELECT role, preopen_ports, shmem FROM kernel_groups") == [("main", [], None)]

    refused(database, "uq_kernel_groups_session_id", GROUP)
    refused(database, "ck_kernel_groups_shmem_not_negative", "UPDATE kernel_groups SET shmem = -1")
    refused(database, "uq_kernel_group_resource_slots_kernel_group_id", SLOT, "cpu", 1)
    for quantity in ("-1", "NaN"):
        refused(database, "ck_kernel_group_resource_slots_quantity_not_negative", SLOT, "mem", quantity)
    refused(database, "fk_kernel_group_resource_slots_slot_name_resource_slot_types", SLOT, "no.such", 1)
    refused(database, "ck_kernel_group_environ_key_format", ENVIRON, "1A")
    refused(database, "fk_kernel_group_resource_slots_kernel_group_id_kernel_groups", "DELETE FROM kernel_groups")

    # The image goes, the group stays; the session stays as long as its group does.
    database.run("UPDATE kernels SET image_id = NULL", "DELETE FROM images")
    assert database.rows("SELECT image_id FROM kernel_groups") == [(None,)]
    database.run("DELETE FROM resource_allocations", "DELETE FROM kernels")
    refused(database, "fk_kernel_groups_session_id_sessions", "DELETE FROM sessions")
    # Only its environment goes with a group.
    database.run("DELETE FROM kernel_group_resource_slots", "DELETE FROM kernel_groups", "DELETE FROM sessions")
    assert database.value("SELECT count(*) FROM kernel_group_environ") == 0

    database.downgrade("e7f4c2a98b10")
    assert database.catalog() == before
