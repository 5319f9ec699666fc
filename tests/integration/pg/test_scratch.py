"""Scratch servers: fast, several at once, and gone whatever happens to their owner."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from schema.errors import ServerError
from schema.pg import scratch
from schema.pg.binaries import postmaster_pid
from schema.pg.scratch import DURABLE, ScratchServer
from schema.pg.target import Target
from tests.support.majors import embedded_only

ROOT = Path(__file__).parents[3]
OWNER = """
import signal, sys
from pathlib import Path
from schema.pg.binaries import postmaster_pid
from schema.pg.scratch import ScratchServer
with ScratchServer(Path(sys.argv[1]) if sys.argv[1] != "None" else None) as server:
    print(server.folder, postmaster_pid(server.folder), flush=True)
    signal.pause()
"""


def ended(pid: int) -> bool:
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def one(url: str, query: str) -> object:
    with psycopg.connect(Target.parse(url, "the tests").conninfo) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[arg-type]
        assert row is not None
        return row[0]


def test_databases_come_and_go_and_settings_hold(pg_bindir: Path | None, major: str) -> None:
    with ScratchServer(pg_bindir, settings={"work_mem": "5MB"}) as server:
        assert server.major == major
        for name, expected in {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}.items():
            assert one(server.url(), f"SHOW {name}") == expected
        assert one(server.url(), "SHOW work_mem") == "5MB"
        url = server.create_database("shop")
        open_one = psycopg.connect(Target.parse(url, "the tests").conninfo)
        open_one.execute("CREATE TABLE item AS SELECT 7 AS id")
        open_one.commit()
        open_one.close()
        assert one(server.create_database(template="shop"), "SELECT id FROM item") == 7
        left = psycopg.connect(Target.parse(url, "the tests").conninfo)
        server.drop_database("shop")
        server.drop_database("shop")
        assert one(server.url(), "SELECT count(*) FROM pg_database WHERE datname = 'shop'") == 0
        left.close()
        folder, pid = server.folder, postmaster_pid(server.folder)
    assert pid is not None
    assert ended(pid)
    assert not folder.exists()
    with pytest.raises(ServerError, match="does not run"):
        _ = server.folder


@embedded_only
def test_it_is_in_memory_where_there_is_room_and_nothing_has_to_last(
    pg_bindir: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    memory = Path(tempfile.mkdtemp(prefix="memory-"))
    memory.chmod(0o1777)
    monkeypatch.setattr(scratch, "_MEMORY", memory)
    monkeypatch.setattr(scratch, "_ROOM_BYTES", 1)
    with ScratchServer(pg_bindir) as server:
        assert server.folder.parent == memory
        assert one(server.url(), "SHOW max_wal_size") == "256MB"
    with ScratchServer(pg_bindir, settings=DURABLE) as server:
        assert server.folder.parent == Path("/tmp")
    monkeypatch.setattr(scratch, "_ROOM_BYTES", 2**60)
    with ScratchServer(pg_bindir) as server:
        assert server.folder.parent == Path("/tmp")
    memory.rmdir()


@embedded_only
def test_several_start_at_once(pg_bindir: Path | None) -> None:
    servers = [ScratchServer(pg_bindir) for _ in range(3)]
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(ScratchServer.start, servers))
        assert len({one(server.url(), "SELECT pg_postmaster_start_time()::text") for server in servers}) == 3
        assert len({server.folder for server in servers}) == 3
    finally:
        for server in servers:
            server.close()
    for server in servers:
        server.close()


@embedded_only
def test_an_exception_removes_it(pg_bindir: Path | None) -> None:
    folders = []

    def fail() -> None:
        with ScratchServer(pg_bindir) as server:
            folders.append(server.folder)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not folders[0].exists()


def test_one_that_cannot_start_says_why_and_leaves_nothing(pg_bindir: Path | None) -> None:
    with pytest.raises(ServerError, match='unrecognized configuration parameter "bogus"') as failed:
        ScratchServer(pg_bindir, settings={"bogus": "1"}).start()
    folder = Path(re.search(r"failed in (\S+):", failed.value.message)[1])  # type: ignore[index]
    assert not folder.exists()


@embedded_only
def test_ctrl_c_removes_it(pg_bindir: Path | None, python: Callable[..., subprocess.Popen[str]]) -> None:
    owner = python(OWNER, pg_bindir)
    assert owner.stdout is not None
    folder, pid = owner.stdout.readline().split()
    os.kill(owner.pid, signal.SIGINT)
    _, errors = owner.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert ended(int(pid))
    assert not Path(folder).exists()


@embedded_only
def test_what_a_killed_owner_left_goes_with_the_next_start_and_live_ones_stay(
    pg_bindir: Path | None, python: Callable[..., subprocess.Popen[str]]
) -> None:
    half_removed, being_made = [Path(tempfile.mkdtemp(prefix="schemactl-scratch-", dir="/tmp")) for _ in range(2)]
    (half_removed / "data").mkdir()
    os.utime(half_removed, (0, 0))
    killed, alive = python(OWNER, pg_bindir), python(OWNER, pg_bindir)
    assert killed.stdout is not None
    assert alive.stdout is not None
    folder, pid = killed.stdout.readline().split()
    alive_folder, alive_pid = alive.stdout.readline().split()
    try:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        with ScratchServer(pg_bindir):
            assert ended(int(pid))
            assert not Path(folder).exists()
            assert postmaster_pid(Path(alive_folder)) == int(alive_pid)
            assert not half_removed.exists()
            assert being_made.exists()
            being_made.rmdir()
    finally:
        os.kill(alive.pid, signal.SIGINT)
        alive.communicate(timeout=30)


def test_the_shell_command(pg_bindir: Path | None, major: str) -> None:
    words = [ROOT / "scripts/postgres", *(["--pg-bindir", pg_bindir] if pg_bindir else []), "-c", "work_mem=6MB"]
    with subprocess.Popen(
        words, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert one(url, "SHOW work_mem") == "6MB"
        assert str(one(url, "SHOW server_version")).startswith(major)
        folder = Path(Target.parse(url, "the tests").url.query["host"])  # type: ignore[arg-type]
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert not folder.exists()
