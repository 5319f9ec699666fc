"""PgBouncer in front of a test server."""

import getpass
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from schema.pg.target import Target
from tests.support.history import until

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextmanager
def pooler(server: Any, mode: str = "transaction", **settings: object) -> Iterator[str]:
    """Run PgBouncer in front of a server; yields the folder of its socket, port 6432."""
    if PGBOUNCER is None:
        pytest.skip("PgBouncer is not installed; on Debian it is the package pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="pooler-"))
    options = {
        "listen_addr": "",
        "listen_port": 6432,
        "unix_socket_dir": folder,
        "auth_type": "any",
        "pool_mode": mode,
        "default_pool_size": 5,
        "logfile": folder / "log",
        **settings,
    }
    if os.geteuid() == 0:
        # It will not run as root, and has to reach the server's socket.
        owner = pwd.getpwuid(Path(server.host).stat().st_uid)
        options["user"] = owner.pw_name
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        folder.chmod(0o755)
    ini = folder / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\n* = host={server.host} port={server.port} user={server.user}\n[pgbouncer]\n"
        + "".join(f"{name} = {value}\n" for name, value in options.items())
    )
    process = subprocess.Popen([PGBOUNCER, "-q", str(ini)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _listens(folder / ".s.PGSQL.6432"))
        yield str(folder)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def pooled(url: str, folder: str) -> str:
    """The URL of the same database through a pooler."""
    of = Target.parse(url, "the tests").url
    query = {"host": folder, "port": "6432"}
    return of.set(username=of.username or getpass.getuser(), query=query).render_as_string(hide_password=False)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
