import psycopg
import pytest

from tests.support.history import Database


def test_backfill_phases(database: Database) -> None:
    database.upgrade("4b7d2f9a0c63")
    before = database.catalog()
    run = database.value("INSERT INTO backfill_runs (job) VALUES ('kernel_groups') RETURNING id")
    with database.connection() as connection:
        connection.execute("INSERT INTO backfill_chunks (run_id, number) VALUES (%s, 0)", [run])
        connection.execute(
            "INSERT INTO backfill_rejects (run_id, session_id, field, reason)"
            " VALUES (%s, gen_random_uuid(), 'shmem', 'unreadable')",
            [run],
        )
    database.upgrade("4e2a9c7f1b58")
    assert database.value("SELECT phase FROM backfill_runs") == "batches"
    assert database.rows("SELECT batch_size, rate, held FROM backfill_chunks") == [(None, None, None)]
    reject = "INSERT INTO backfill_rejects (run_id, parent_key, field, reason) VALUES (%s, %s, 'row', 'fails')"
    with database.connection() as connection:
        connection.execute(reject, [run, "7"])
        with pytest.raises(psycopg.errors.CheckViolation, match="ck_backfill_rejects_parent"):
            connection.execute(reject, [run, None])
    database.downgrade("4b7d2f9a0c63")
    assert database.catalog() == before
    assert database.rows("SELECT field FROM backfill_rejects") == [("shmem",)]
