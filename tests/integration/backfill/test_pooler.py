"""The backfill through PgBouncer in transaction mode, with fewer server connections than workers."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psycopg
import pytest

from schema.cli import run
from tests.support import pooler


@pytest.fixture
def pooled(server, head_database) -> Iterator[str]:
    """URL of the test's database through a pooler."""
    with pooler.pooler(server, default_pool_size=2) as folder:
        yield pooler.pooled(head_database, folder)


def test_through_a_pooler(cluster, cases, pooled, capsys):
    for case in cases:
        cluster.load(case)
    with suppress(psycopg.OperationalError):
        psycopg.connect(pooled.replace("+psycopg", ""), options="-c jit=off").close()
        pytest.fail("the pooler takes options, so this test shows nothing")
    assert run(["--url", pooled, "backfill", "--workers", "4", "--duty", "100", "--batch-size", "2"]) == 5
    assert cluster.failures() == []
    assert run(["--url", pooled, "backfill", "verify"]) == 5
    assert run(["--url", pooled, "backfill", "status"]) == 0
    assert "complete: 100.0%" in capsys.readouterr().out
    # Nothing that a batch sets stays on the pooler's two connections; a transaction has one to itself.
    names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "enable_nestloop", "jit")
    usual = cluster.connection.execute(
        "SELECT current_setting(n) FROM unnest(%s::text[]) AS n", (list(names),)
    ).fetchall()
    seen = set()
    with ExitStack() as stack:
        for _ in range(2):
            connection = stack.enter_context(psycopg.connect(pooled.replace("+psycopg", ""), prepare_threshold=None))
            seen.add(connection.execute("SELECT pg_backend_pid()").fetchone())
            assert (
                connection.execute("SELECT current_setting(n) FROM unnest(%s::text[]) AS n", (list(names),)).fetchall()
                == usual
            )
    assert len(seen) == 2
    advisory = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database"
    assert cluster.connection.execute(f"{advisory} WHERE datname = current_database())").fetchone() == (0,)
