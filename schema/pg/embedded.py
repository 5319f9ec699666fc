"""The embedded server: one per project, started on demand, shared by commands, outliving them."""

import errno
import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psycopg
import sqlalchemy as sa
from psycopg import sql

from schema.errors import ServerError
from schema.pg.binaries import (
    PORT,
    ROOT_STATE,
    SUPERUSER,
    Installation,
    data_major,
    disk_full,
    find_installation,
    make_root_state,
    postmaster_pid,
    started_with,
)

DATABASE = "schemactl"
# The server tells by this setting, on its command line, that it was started here.
_NAME = ("cluster_name", "schemactl")
_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class ServerStatus:
    """State of the embedded server. `pid` is None when it does not run, `data_major` when it has no data."""

    running: bool
    pid: int | None
    url: str
    folder: Path
    account: str
    data_major: str | None
    server_version: str
    bindir: Path


def default_state_dir(ini: Path | None) -> Path:
    """Return where a project's state is: SCHEMACTL_STATE_DIR, else `.schemactl` beside its ini, else in the home."""
    if chosen := os.environ.get("SCHEMACTL_STATE_DIR"):
        return Path(chosen).absolute()
    return ini.absolute().parent / ".schemactl" if ini is not None else Path.home() / ".schemactl"


class EmbeddedServer:
    """The embedded server of a state folder.

    An ordinary user's is in `state_dir/server`; root's is in /var/lib/schemactl, under a hash of `state_dir`, and
    belongs to an unprivileged account. Nobody else may enter its folder (mode 0700), which is all its protection:
    who reaches the socket is the superuser. No mode of an existing folder is ever changed.
    """

    def __init__(self, state_dir: Path, pg_bindir: Path | None = None) -> None:
        self.state_dir = state_dir.resolve()
        self._pg_bindir = pg_bindir
        if os.geteuid() == 0:
            self.folder = ROOT_STATE / hashlib.sha256(os.fsencode(self.state_dir)).hexdigest()[:12]
        else:
            self.folder = self.state_dir / "server"

    @cached_property
    def installation(self) -> Installation:
        """The programs that run it."""
        return find_installation(self._pg_bindir)

    @property
    def socket(self) -> Path:
        """Folder of the socket: the server's own, or one in /tmp when that path is too long, or has a comma.

        libpq takes a comma in a host for the start of another host.
        """
        path = os.fsencode(self.folder / f".s.PGSQL.{PORT}")
        if len(path) <= _SOCKET_PATH_BYTES and b"," not in path:
            return self.folder
        return Path("/tmp") / f"schemactl-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]}"  # noqa: S108

    @property
    def url(self) -> sa.URL:
        """URL of its database, whether it runs or not."""
        query = {"host": str(self.socket), "port": str(PORT)}
        return sa.URL.create("postgresql+psycopg", SUPERUSER, database=DATABASE, query=query)

    @property
    def environment(self) -> dict[str, str]:
        """Our environment, with libpq's variables for this server in place of any other."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {
            **ours,
            "PGHOST": str(self.socket),
            "PGPORT": str(PORT),
            "PGUSER": SUPERUSER,
            "PGDATABASE": DATABASE,
        }

    def ensure_running(self) -> bool:
        """Make the data, start the server and create the database, as far as missing. Return whether it was started.

        Commands that do this at once wait for each other by a lock on a file; a server that answers needs no lock.

        Raises:
            ServerError: another major's data, in use by a foreign server, not writable, disk full.
        """
        with self._explained():
            self._check_major()
            if self._is_ours() and self._answers():
                return False
        with self._locked():
            self._check_major()
            self._private(self.folder)
            if data_major(self.folder) is None:
                self.installation.initialise(self.folder, durable=True)
            started = postmaster_pid(self.folder) is None
            if started:
                if self.socket != self.folder:
                    self._private(self.socket)
                # Statements that fail may hold environment values; the log is no place for them.
                settings = dict([_NAME]) | {"unix_socket_permissions": "0700", "log_min_error_statement": "panic"}
                self.installation.start(self.folder, settings, socket=self.socket)
            else:
                self._refuse_foreign()
            self._create_database()
            return started

    def stop(self) -> bool:
        """Stop the server; return False when it did not run.

        Raises:
            ServerError: it was not started here, or does not stop.
        """
        if not self.folder.exists():
            return False
        with self._locked():
            return self._stop()

    def reset(self) -> bool:
        """Stop the server and delete its data for good; return False when there was nothing.

        Raises:
            ServerError: it was not started here, or its files cannot be deleted.
        """
        if not self.folder.exists():
            return False
        with self._locked():
            self._stop()
            if self.socket != self.folder and self.socket.exists():
                shutil.rmtree(self.socket)
            shutil.rmtree(self.folder)
            self._lock_path.unlink()
            return True

    def status(self) -> ServerStatus:
        """Look at the server without starting it."""
        with self._explained():
            pid = postmaster_pid(self.folder)
            return ServerStatus(
                running=pid is not None and self._is_ours(),
                pid=pid,
                # As psql takes it, which reads a + as one and no blank; SQLAlchemy and --url do too.
                url=self.url.set(drivername="postgresql").render_as_string(hide_password=False).replace("+", "%20"),
                folder=self.folder,
                account=self.installation.account.name,
                data_major=data_major(self.folder),
                server_version=self.installation.version,
                bindir=self.installation.bindir,
            )

    def _stop(self) -> bool:
        if postmaster_pid(self.folder) is None:
            return False
        self._refuse_foreign()
        self.installation.stop(self.folder)
        return True

    def _is_ours(self) -> bool:
        return started_with(self.folder, *_NAME)

    def _refuse_foreign(self) -> None:
        if not self._is_ours():
            raise ServerError(
                f"the data in {self.folder} are in use by a server that was not started here "
                f"(process {postmaster_pid(self.folder)})",
                hint="Stop it the way it was started, or connect to it with --url.",
            )

    def _check_major(self) -> None:
        found = data_major(self.folder)
        if found is not None and found != self.installation.major:
            raise ServerError(
                f"the data in {self.folder} are of PostgreSQL {found}, and the programs in {self.installation.bindir} "
                f"are of PostgreSQL {self.installation.version}",
                hint=f"Name a PostgreSQL {found} with --pg-bindir, or delete them: `schemactl server reset`.",
            )

    def _answers(self) -> bool:
        try:
            self._connect(DATABASE).close()
        except psycopg.OperationalError:
            return False
        return True

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.socket), port=PORT, user=SUPERUSER, dbname=database, connect_timeout=10, autocommit=True
        )

    def _create_database(self) -> None:
        # A server that somebody else's pg_ctl is still waiting for, or one in recovery, gets some time.
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                connection = self._connect("postgres")
                break
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise ServerError(
                        f"the server in {self.folder} does not answer: {' '.join(str(error).split())}"
                    ) from error
                time.sleep(0.1)
        with connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchall():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def _private(self, folder: Path) -> None:
        """Make a folder that only the account may enter, or make sure that the one there is such a folder."""
        try:
            folder.mkdir(mode=0o700)
            self.installation.own(folder)
        except FileExistsError:
            pass
        found = folder.lstat()
        if folder.is_symlink() or found.st_uid != self.installation.account.uid or found.st_mode & 0o077:
            raise ServerError(
                f"{folder} is not a private folder of the account {self.installation.account.name}",
                hint=f"Move it away, or: chown {self.installation.account.name} and chmod 700, if it is yours.",
            )

    @property
    def _lock_path(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.lock")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only command that makes, starts, stops or deletes this server."""
        with self._explained():
            if self.installation.account.switch:
                make_root_state()
            else:
                self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    if self._is_current(lock):
                        yield
                        return
                finally:
                    os.close(lock)

    def _is_current(self, lock: int) -> bool:
        """Whether a lock is on the file of today: `reset` deletes it, and a lock on a deleted file keeps nobody out."""
        try:
            return os.path.samestat(os.fstat(lock), self._lock_path.stat())
        except FileNotFoundError:
            return False

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what the file system refuses into one paragraph."""
        try:
            yield
        except OSError as error:
            where = error.filename or self.folder
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise disk_full(Path(os.fsdecode(where))) from error
            raise ServerError(
                f"the embedded server cannot use {where}: {error.strerror}",
                hint="Set SCHEMACTL_STATE_DIR to a folder that you may write, or give a database by --url.",
            ) from error
