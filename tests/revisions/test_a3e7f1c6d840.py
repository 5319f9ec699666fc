from tests.support.history import Database

INDEX = "ix_kernel_groups_bootstrap_script_revision_id"


def test_kernel_groups_bootstrap_script_index(database: Database) -> None:
    database.upgrade("0d9b5c7e83f2")
    database.seed(1)
    database.run("INSERT INTO kernel_groups (session_id, role) SELECT id, 'main' FROM sessions")
    assert database.index(INDEX) is None
    database.upgrade("a3e7f1c6d840")
    assert database.index(INDEX) == ("public.kernel_groups USING btree (bootstrap_script_revision_id)", True)
    database.downgrade("0d9b5c7e83f2")
    assert database.index(INDEX) is None
    assert database.value("SELECT count(*) FROM kernel_groups") == 1
