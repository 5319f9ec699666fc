from tests.support.history import Database

FK = "fk_kernel_groups_bootstrap_script"
DEFINITION = "FOREIGN KEY (bootstrap_script_revision_id) REFERENCES bootstrap_script_revisions(id) ON DELETE RESTRICT"


def test_validate_kernel_groups_bootstrap_script(database: Database) -> None:
    database.upgrade("f8a1637d2e5b")
    database.seed(1)
    database.run("INSERT INTO kernel_groups (session_id, role) SELECT id, 'main' FROM sessions")
    before = database.catalog()
    database.upgrade("0d9b5c7e83f2")
    assert database.constraint(FK) == (DEFINITION, True)
    database.downgrade("f8a1637d2e5b")
    assert database.constraint(FK) == (f"{DEFINITION} NOT VALID", False)
    assert database.catalog() == before
    assert database.value("SELECT count(*) FROM kernel_groups") == 1
