import psycopg
import pytest

from tests.support.history import Database

FK = "fk_kernel_groups_bootstrap_script"
DEFINITION = (
    "FOREIGN KEY (bootstrap_script_revision_id) REFERENCES bootstrap_script_revisions(id) ON DELETE RESTRICT NOT VALID"
)


def test_kernel_groups_bootstrap_script(database: Database) -> None:
    database.upgrade("c05e9b4a7f16")
    database.seed(1)
    database.run("INSERT INTO kernel_groups (session_id, role) SELECT id, 'main' FROM sessions")
    before = database.catalog()
    filenode = "SELECT pg_relation_filenode('kernel_groups')"
    stored = database.value(filenode)

    database.upgrade("f8a1637d2e5b")
    assert database.constraint(FK) == (DEFINITION, False)
    assert database.value(filenode) == stored
    assert database.rows("SELECT role, bootstrap_script_revision_id FROM kernel_groups") == [("main", None)]
    database.run(
        "INSERT INTO bootstrap_script_revisions (digest, script) VALUES ('d', 'x')",
        "UPDATE kernel_groups SET bootstrap_script_revision_id = s.id FROM bootstrap_script_revisions s",
    )
    with pytest.raises(psycopg.errors.IntegrityError, match=FK):
        database.run("DELETE FROM bootstrap_script_revisions")

    database.downgrade("c05e9b4a7f16")
    assert database.catalog() == before
    assert database.rows("SELECT role FROM kernel_groups") == [("main",)]
