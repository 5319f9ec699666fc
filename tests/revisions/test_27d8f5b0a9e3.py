import psycopg
import pytest

from tests.support.history import Database

RUN = "INSERT INTO backfill_runs (job, state) VALUES ('kernel_groups', %s) RETURNING id"


def test_backfill_ledger(database: Database) -> None:
    database.upgrade("b6f3d2791ce8")
    before = database.catalog()
    database.upgrade("27d8f5b0a9e3")
    with database.connection() as connection:
        for state in ("complete", "failed", "running"):
            run = connection.execute(RUN, [state]).fetchone()
        for state in ("running", "paused"):
            with pytest.raises(psycopg.errors.UniqueViolation, match="uq_backfill_runs_job_active"):
                connection.execute(RUN, [state])
        connection.execute("INSERT INTO backfill_chunks (run_id, number) VALUES (%s, 1)", run)
        # A reject refers to no session: it stays when that is purged.
        connection.execute(
            "INSERT INTO backfill_rejects (run_id, session_id, field, reason) "
            "VALUES (%s, gen_random_uuid(), 'shmem', 'unreadable')",
            run,
        )
        with pytest.raises(psycopg.errors.GeneratedAlways):
            connection.execute("UPDATE backfill_rejects SET id = 7")
    assert database.rows("SELECT state, fence, attempts, totals FROM backfill_chunks") == [("pending", 0, 0, {})]
    database.run("DELETE FROM backfill_runs")
    assert database.rows("SELECT (SELECT count(*) FROM backfill_chunks), (SELECT count(*) FROM backfill_rejects)") == [
        (0, 0)
    ]
    database.downgrade("b6f3d2791ce8")
    assert database.catalog() == before
