"""The backfill through PgBouncer in transaction mode, with fewer server connections than workers."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from schema.cli import run
from schema.pg.account import server_account
from tests.support.backfill import until

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/opt/homebrew/bin:/usr/local/bin")
PORT = 6432


@pytest.fixture
def pooled(server, head_database) -> Iterator[str]:
    """URL of the test's database through a pooler."""
    if PGBOUNCER is None:
        pytest.skip("pgbouncer is not installed: Debian's package pgbouncer, which .ci/run installs")
    account = server_account()
    folder = Path(tempfile.mkdtemp(prefix="pooler-", dir="/tmp"))
    try:
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={server.host} port={server.port} user={server.user}\n"
            f"[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {folder}\nauth_type = any\n"
            "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 50\n"
        )
        if account.switch:
            for path in (folder, folder / "pgbouncer.ini"):
                shutil.chown(path, account.uid, account.gid)
        process = subprocess.Popen(
            [PGBOUNCER, "pgbouncer.ini"], cwd=folder, stderr=subprocess.DEVNULL, **account.process
        )
        try:
            until((folder / f".s.PGSQL.{PORT}").exists)
            yield (
                sa.make_url(head_database)
                .update_query_dict({"host": str(folder), "port": str(PORT)})
                .render_as_string(hide_password=False)
            )
        finally:
            process.terminate()
            process.wait(10)
    finally:
        shutil.rmtree(folder)


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
