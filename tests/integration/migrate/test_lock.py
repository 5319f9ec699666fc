"""What the runner's lock costs others."""

from schema.migrate.lock import only_runner
from schema.pg.connect import connect
from schema.pg.target import Target


def test_no_index_build_waits_for_the_lock_s_session(empty_target: Target) -> None:
    with (
        only_runner(empty_target, wait_s=0, report=print) as lock,
        connect(empty_target, autocommit=True) as other,
    ):
        other.execute("CREATE TABLE app (id int)")
        # It would end with 55P03: CONCURRENTLY waits for whoever has a snapshot older than its own.
        other.execute("SET lock_timeout = '2s'")
        other.execute("CREATE INDEX CONCURRENTLY ix_app ON app (id)")
        pid = lock.connection.info.backend_pid
        seen = other.execute("SELECT backend_xmin FROM pg_stat_activity WHERE pid = %s", [pid])
        assert seen.fetchone() == (None,)
