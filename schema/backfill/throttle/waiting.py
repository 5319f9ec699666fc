"""Whether somebody waits for this transaction. Asked within each batch, so that the answer is about that batch."""

from psycopg import Connection

from schema.backfill.job import Row


def is_waited_for(connection: Connection[Row]) -> bool:
    """Whether a backend waits for a lock of the caller's transaction."""
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
    ).fetchone()
    return row is not None and bool(row[0])
