from tests.support.history import Database

INDEX = "ix_session_dependencies_depends_on"


def test_session_dependencies_index(database: Database) -> None:
    database.upgrade("3b8e1d6c9a47")
    database.seed(2)
    database.run("INSERT INTO session_dependencies SELECT a.id, b.id FROM sessions a, sessions b WHERE a.id < b.id")
    assert database.index(INDEX) is None
    database.upgrade("c9e1b7a4d2f0")
    assert database.index(INDEX) == ("public.session_dependencies USING btree (depends_on)", True)
    database.downgrade("3b8e1d6c9a47")
    assert database.index(INDEX) is None
    assert database.value("SELECT count(*) FROM session_dependencies") == 1
