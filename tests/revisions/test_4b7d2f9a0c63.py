import psycopg
import pytest

from tests.support.history import Database

REVISION = (
    "INSERT INTO deployment_revisions (endpoint_id, revision_number, image_id, image, architecture, runtime_variant,"
    " bootstrap_script_revision_id) SELECT e.id, 1, i.id, 'r/p/n:t', 'x86_64', 'vllm', b.id"
    " FROM endpoints e, images i, bootstrap_script_revisions b"
)
SLOT = "INSERT INTO deployment_revision_resource_slots SELECT id, %s, %s FROM deployment_revisions"
ENVIRON = "INSERT INTO deployment_revision_environ SELECT id, %s, 'x' FROM deployment_revisions"


def refused(database: Database, constraint: str, statement: str, *parameters: object) -> None:
    with database.connection() as connection, pytest.raises(psycopg.IntegrityError) as error:
        connection.execute(statement, parameters or None)
    assert error.value.diag.constraint_name == constraint


def test_deployment_revisions(database: Database) -> None:
    database.upgrade("a3e7f1c6d840")
    database.run(
        "INSERT INTO endpoints (name) VALUES ('e')",
        "INSERT INTO images (registry, project, name, tag) VALUES ('r', 'p', 'n', 't')",
        "INSERT INTO bootstrap_script_revisions (digest, script) VALUES ('d', 'x')",
    )
    before = database.catalog()
    database.upgrade("4b7d2f9a0c63")
    database.run(REVISION)
    with database.connection() as connection:
        connection.execute(SLOT, ["cpu", 0])
        connection.execute(ENVIRON, ["PATH"])
    assert database.rows(
        "SELECT shmem, preopen_ports, cluster_mode, cluster_size, created_at <= now() FROM deployment_revisions"
    ) == [(None, [], "single-node", 1, True)]

    refused(database, "uq_deployment_revisions_endpoint_id", REVISION)
    refused(database, "ck_deployment_revisions_shmem_not_negative", "UPDATE deployment_revisions SET shmem = -1")
    refused(database, "pk_deployment_revision_resource_slots", SLOT, "cpu", 1)
    for quantity in ("-1", "NaN"):
        refused(database, "ck_deployment_revision_resource_slots_quantity_not_negative", SLOT, "mem", quantity)
    refused(database, "fk_deployment_revision_resource_slots_slot_name", SLOT, "no.such", 1)
    refused(database, "pk_deployment_revision_environ", ENVIRON, "PATH")
    for key in ("1A", "A-B", "A\n", ""):
        refused(database, "ck_deployment_revision_environ_key_format", ENVIRON, key)
    refused(database, "fk_deployment_revisions_bootstrap_script", "DELETE FROM bootstrap_script_revisions")

    # The image goes, the revision stays; the endpoint takes its revisions along.
    database.run("DELETE FROM images")
    assert database.rows("SELECT image_id, image FROM deployment_revisions") == [(None, "r/p/n:t")]
    database.run("DELETE FROM endpoints")
    for table in ("deployment_revisions", "deployment_revision_resource_slots", "deployment_revision_environ"):
        assert database.value(f"SELECT count(*) FROM {table}") == 0

    database.downgrade("a3e7f1c6d840")
    assert database.catalog() == before
    assert database.value("SELECT count(*) FROM bootstrap_script_revisions") == 1
