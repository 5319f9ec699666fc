import psycopg
import pytest

from schema.errors import RevisionError
from tests.support.history import Database

CHECK = "ck_storage_volumes_name_format"


def volumes(database: Database, *names: str) -> None:
    with database.connection() as connection:
        for name in names:
            connection.execute("INSERT INTO storage_volumes (name, host, backend) VALUES (%s, 'nfs', 'vfs')", [name])


def test_storage_volume_names(database: Database) -> None:
    database.upgrade("3b8e1d6c9a47")
    volumes(database, "vol.1", "A_b-c")
    database.upgrade("51d33226c0a5")
    assert database.constraint(CHECK) == ("CHECK (((name)::text ~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$'::text))", True)
    with pytest.raises(psycopg.errors.CheckViolation, match=CHECK):
        volumes(database, "a/b")
    database.downgrade("3b8e1d6c9a47")
    assert database.constraint(CHECK) is None
    volumes(database, "a/b")
    assert database.value("SELECT count(*) FROM storage_volumes") == 3


def test_preflight_names_the_rows_before_any_ddl(database: Database) -> None:
    database.upgrade("3b8e1d6c9a47")
    volumes(database, "good", "a/b", "it's", *(f"{n}@host" for n in range(20)))
    with pytest.raises(RevisionError) as failed:
        database.upgrade("51d33226c0a5")
    assert "51d33226c0a5" in failed.value.message
    assert "22 name(s) that the new CHECK refuses: '0@host' (id " in failed.value.message
    assert failed.value.message.count("(id ") == 10
    assert "'good'" not in failed.value.message
    assert failed.value.hint == "Rename these volumes, then run the upgrade again."
    assert (database.constraint(CHECK), database.current()) == (None, ("3b8e1d6c9a47",))

    database.run("UPDATE storage_volumes SET name = 'v' || replace(id::text, '-', '_') WHERE name ~ '[@/'']'")
    database.upgrade("51d33226c0a5")
    assert database.current() == ("51d33226c0a5",)


def test_runs_again_when_validation_was_interrupted(database: Database) -> None:
    database.upgrade("3b8e1d6c9a47")
    database.run(f"ALTER TABLE storage_volumes ADD CONSTRAINT {CHECK} CHECK (name <> '') NOT VALID")
    database.upgrade("51d33226c0a5")
    assert database.constraint(CHECK) == ("CHECK (((name)::text ~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$'::text))", True)
