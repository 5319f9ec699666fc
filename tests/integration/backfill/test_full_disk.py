"""A disk that fills up: a clear error, nothing lost, and the same command goes on once there is space."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import sql

from schema.cli import run
from schema.errors import ExitCode
from schema.pg.account import server_account


@pytest.fixture
def small_disk(server, cluster) -> Iterator[Path]:
    """A file system of 3 MB that holds the groups' environment."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("a small file system is mounted for this test, which takes root")
    folder = Path(tempfile.mkdtemp(prefix="small-", dir="/tmp"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    space = sql.Identifier(f"small_{cluster.connection.info.dbname}")
    move = sql.SQL("ALTER TABLE kernel_group_environ SET TABLESPACE {}")
    try:
        account = server_account()
        shutil.chown(folder, account.uid, account.gid)
        cluster.connection.execute(sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(space, sql.Literal(str(folder))))
        cluster.connection.execute(move.format(space))
        yield folder
        cluster.connection.execute(move.format(sql.Identifier("pg_default")))
        cluster.connection.execute(sql.SQL("DROP TABLESPACE {}").format(space))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def test_full_disk(cluster, small_disk, capsys):
    # What a compressor can do nothing about: 40 values of 130 KB.
    [value] = cluster.connection.execute(
        "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 4096) AS n"
    ).fetchone()
    for number in range(40):
        cluster.kernel(cluster.session(), environ=[f"A={number}{value}"])
    command = ["--url", cluster.url, "backfill", "--batch-size", "5", "--duty", "100"]
    assert run(command) == ExitCode.FAILED
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "(SQLSTATE 53100). Free space on the server's disk, then run the command again." in said
    groups, quarantined, state = cluster.connection.execute(
        "SELECT (SELECT count(*) FROM kernel_groups), (SELECT count(*) FROM backfill_rejects),"
        " (SELECT state FROM backfill_runs)"
    ).fetchone()
    assert 0 < groups < 40
    assert (groups % 5, quarantined, state) == (0, 0, "running")
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert run(command) == ExitCode.OK
    assert cluster.connection.execute("SELECT count(*) FROM kernel_group_environ").fetchone() == (40,)
    assert cluster.failures() == []
