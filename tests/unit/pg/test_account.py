"""Who runs servers, and where their folders and sockets are."""

import os
import pwd
from pathlib import Path

import pytest

from schema.errors import ServerError
from schema.migrate import project
from schema.pg import account as module
from schema.pg.account import server_account
from schema.pg.embedded import EmbeddedServer, default_state_dir


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Be root on a machine with these accounts."""
    known: dict[str, int] = {"postgres": 26, "nobody": 99}

    def look(name: str) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", known[name], known[name] + 1, "", "/", "/bin/false"))

    monkeypatch.setattr(module.pwd, "getpwnam", look)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return known


def test_root_uses_postgres_then_nobody(accounts: dict[str, int]) -> None:
    assert (server_account().name, server_account().uid, server_account().gid) == ("postgres", 26, 27)
    assert server_account().process == {"user": 26, "group": 27, "extra_groups": []}
    del accounts["postgres"]
    assert (server_account().name, server_account().uid) == ("nobody", 99)
    del accounts["nobody"]
    with pytest.raises(ServerError, match="there is no account"):
        server_account()


def test_an_ordinary_user_switches_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_123)
    account = server_account()
    assert (account.name, account.uid, account.process) == ("4000123", 4_000_123, {})


@pytest.mark.parametrize(
    ("folder", "own"),
    [("/home/me/project/.schemactl", True), ("/home/" + "d" * 100, False), ("/home/me/a,b/.schemactl", False)],
)
def test_the_socket_is_in_the_servers_folder_when_libpq_can_use_it(
    monkeypatch: pytest.MonkeyPatch, folder: str, own: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    server = EmbeddedServer(Path(folder))
    assert server.folder == Path(folder) / "server"
    assert (server.socket == server.folder) is own
    assert "," not in str(server.socket)
    assert len(bytes(server.socket / ".s.PGSQL.5432")) <= 103
    assert server.socket == EmbeddedServer(Path(folder)).socket


def test_where_the_state_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("SCHEMACTL_STATE_DIR", raising=False)
    assert default_state_dir(None) == Path("/home/me/.schemactl")
    assert default_state_dir(tmp_path / "alembic.ini") == tmp_path / ".schemactl"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHEMACTL_STATE_DIR", "here")
    assert default_state_dir(None) == tmp_path / "here"


def test_the_state_of_an_installed_wheel_is_not_among_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    packed = tmp_path / "schema/_project/alembic.ini"
    packed.parent.mkdir(parents=True)
    packed.touch()
    monkeypatch.setattr(project, "_packed_ini", lambda: packed)
    assert project.state_dir(packed) == Path("/home/me/.schemactl")
    other = tmp_path / "alembic.ini"
    other.touch()
    assert project.state_dir(other) == tmp_path / ".schemactl"
