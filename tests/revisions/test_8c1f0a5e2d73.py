import psycopg
import pytest

from tests.support.history import Database

TABLES = {
    "agents", "domains", "endpoints", "groups", "images", "kernels", "resource_allocations", "resource_slot_types",
    "routings", "scaling_groups", "session_dependencies", "sessions", "storage_volumes", "users",
}  # fmt: skip
SLOTS = [
    "cpu", "mem", "cuda.device", "cuda.shares", "rocm.device", "tpu.device", "ipu.device", "atom.device",
    "atom-plus.device", "atom-max.device", "gaudi2.device", "warboy.device", "rngd.device", "hyperaccel-lpu.device",
]  # fmt: skip


def tables(database: Database) -> set[str]:
    return {row[0] for row in database.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


def test_cluster_tables(database: Database) -> None:
    database.run("CREATE TABLE elsewhere (a int)")
    database.upgrade("8c1f0a5e2d73")
    assert tables(database) == {*TABLES, "alembic_version", "elsewhere"}
    assert database.rows("SELECT slot_name FROM resource_slot_types ORDER BY rank") == [(name,) for name in SLOTS]
    assert database.rows("SELECT slot_name FROM resource_slot_types WHERE slot_type = 'bytes'") == [("mem",)]

    database.seed(3)
    assert database.value("SELECT count(*) FROM kernels") == 6
    assert database.value("SELECT DISTINCT options FROM sessions") == {"kernel_groups": []}
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="fk_kernels_session_id_sessions"):
        database.run("DELETE FROM sessions")

    database.downgrade("base")
    assert tables(database) == {"alembic_version", "elsewhere"}
    assert database.rows("SELECT to_regprocedure('uuid_generate_v7()')") == [(None,)]


def test_ids_are_uuids_of_version_7_that_grow_with_time(database: Database) -> None:
    database.upgrade("8c1f0a5e2d73")
    made = [row[0] for row in database.rows("SELECT uuid_generate_v7(), pg_sleep(0.002) FROM generate_series(1, 50)")]
    assert {(made_id.version, made_id.variant) for made_id in made} == {(7, "specified in RFC 4122")}
    assert made == sorted(made)
    milliseconds = database.value("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    assert abs(milliseconds - (made[-1].int >> 80)) < 60_000


def test_a_name_is_free_again_when_its_session_has_ended(database: Database) -> None:
    database.upgrade("8c1f0a5e2d73")
    user = "00000000-0000-0000-0000-000000000001"
    insert = f"INSERT INTO sessions (name, user_uuid, status) VALUES ('mine', '{user}', 'RUNNING')"
    database.run(insert)
    with pytest.raises(psycopg.errors.UniqueViolation, match="uq_sessions_name_user_uuid_live"):
        database.run(insert)
    database.run("UPDATE sessions SET status = 'TERMINATED'", insert)


def test_a_function_of_that_name_is_kept(database: Database) -> None:
    database.run("CREATE FUNCTION uuid_generate_v7() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()'")
    database.upgrade("8c1f0a5e2d73")
    assert database.value("SELECT prosrc FROM pg_proc WHERE proname = 'uuid_generate_v7'") == "SELECT gen_random_uuid()"
