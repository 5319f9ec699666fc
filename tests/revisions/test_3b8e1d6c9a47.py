import psycopg
import pytest

from tests.support.history import Database


def test_system_session_environ(database: Database) -> None:
    database.upgrade("d4a27f90b6e1")
    assert not database.table_exists("system_session_environ")
    database.upgrade("3b8e1d6c9a47")
    database.run("INSERT INTO system_session_environ (key, value) VALUES ('HTTP_PROXY', ''), ('_x1', 'a=b')")
    assert database.value(
        "SELECT bool_and(created_at IS NOT NULL AND updated_at IS NOT NULL) FROM system_session_environ"
    )
    for key in ("1A", "A-B", "", "A\n", "Ä"):
        with database.connection() as connection, pytest.raises(psycopg.errors.CheckViolation) as refused:
            connection.execute("INSERT INTO system_session_environ (key, value) VALUES (%s, 'x')", [key])
        assert refused.value.diag.constraint_name == "ck_system_session_environ_key_format"
    database.downgrade("d4a27f90b6e1")
    assert not database.table_exists("system_session_environ")
