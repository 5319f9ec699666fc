"""Throw-away servers for tests and reviews: fast, unsafe by choice, and always removed."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg
import sqlalchemy as sa
from psycopg import sql

from schema.errors import ServerError
from schema.pg.binaries import PORT, SUPERUSER, Installation, find_installation, postmaster_pid

_PREFIX = "schemactl-scratch-"
_OWNER = "owner.lock"
_DISK = Path("/tmp")  # noqa: S108
_MEMORY = Path("/dev/shm")  # noqa: S108
_ROOM_BYTES = 4 * 1024**3
_MOST_WAL_IN_MEMORY = "256MB"
_LONGEST_BIRTH_S = 600
_LONGEST_PARENT_BYTES = 60
"""Leaves room for the folder's and the socket's name within the 103 bytes of a socket path."""

_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "cluster_name": "schemactl-scratch",
    "log_min_error_statement": "panic",
    "max_wal_size": "2GB",
}
DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
"""Settings of a scratch server that writes to the disk as a real one does, for measurements."""


class ScratchServer:
    """A server of its own in a temporary folder, in memory where there is room for it; a context manager.

    `settings` are PostgreSQL's, over those that make it fast. The folder goes with the server: on exit, on an
    exception, on Ctrl-C; what a killed process left behind is removed when the next one starts. Any number run at
    once: the port only names the socket file.
    """

    port = PORT
    user = SUPERUSER

    def __init__(self, pg_bindir: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self._pg_bindir = pg_bindir
        self._settings = {**_SETTINGS, **(settings or {})}
        self._installation: Installation | None = None
        self._folder: Path | None = None
        self._owner: int | None = None

    @property
    def folder(self) -> Path:
        """Its folder, which holds the socket."""
        if self._folder is None:
            raise ServerError("the scratch server does not run")
        return self._folder

    @property
    def host(self) -> str:
        """What libpq calls the host: the folder of the socket."""
        return str(self.folder)

    @property
    def installation(self) -> Installation:
        """The programs that run it."""
        if self._installation is None:
            self._installation = find_installation(self._pg_bindir)
        return self._installation

    @property
    def bindir(self) -> Path:
        """Folder of its programs."""
        return self.installation.bindir

    @property
    def major(self) -> str:
        """Major version, such as "18"."""
        return self.installation.major

    def start(self) -> Self:
        """Make and start it; `close` must follow.

        Raises:
            ServerError: it could not be made or started; nothing is left.
        """
        try:
            _sweep(self.installation)
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent()))
            self._owner = _claim(self._folder)
            self.installation.own(self._folder)
            self.installation.initialise(self._folder, durable=False)
            settings = dict(self._settings)
            if self._folder.parent == _MEMORY:
                settings["max_wal_size"] = _MOST_WAL_IN_MEMORY
            self.installation.start(self._folder, settings, socket=self._folder)
        except OSError as error:
            self.close()
            raise ServerError(f"no scratch server can be made in {error.filename}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop it and remove every file of it; doing so twice is no fault."""
        folder, self._folder = self._folder, None
        owner, self._owner = self._owner, None
        try:
            if folder is not None:
                _remove(folder, self.installation)
        finally:
            if owner is not None:
                os.close(owner)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def url(self, dbname: str = "postgres") -> str:
        """URL of one of its databases."""
        query = {"host": self.host, "port": str(self.port)}
        made = sa.URL.create("postgresql+psycopg", self.user, database=dbname, query=query)
        return made.render_as_string(hide_password=False)

    def create_database(self, name: str | None = None, template: str = "template0") -> str:
        """Create a database, under a name that is free when none is given, and return its URL."""
        name = name or f"scratch_{uuid.uuid4().hex[:12]}"
        with self._admin() as admin:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, connections to it or not; one that is not there is no fault."""
        with self._admin() as admin:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _admin(self) -> psycopg.Connection:
        return psycopg.connect(host=self.host, port=self.port, user=self.user, dbname="postgres", autocommit=True)

    def _parent(self) -> Path:
        """Where its folder is made: in memory, unless TMPDIR says otherwise or it is to write to a disk."""
        chosen = _temporary(self.installation)
        # ext4 looks at every inode that was freed within the last five seconds before it gives one away: after a
        # database is dropped, the next one takes ten times as long to make.
        in_memory = chosen == _DISK and self._settings["fsync"] == "off" and _has_room(_MEMORY)
        return _MEMORY if in_memory else chosen


def _temporary(installation: Installation) -> Path:
    """TMPDIR, when the server's account can use it and it is short enough."""
    chosen = Path(tempfile.gettempdir())
    usable = not installation.account.switch and "," not in str(chosen)
    return chosen if usable and len(os.fsencode(chosen)) <= _LONGEST_PARENT_BYTES else _DISK


def _has_room(folder: Path) -> bool:
    """Whether a folder is there and its file system and the machine's memory have room for a server."""
    try:
        free = shutil.disk_usage(folder).free
        available = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return False
    if available is None or not os.access(folder, os.W_OK | os.X_OK):
        return False
    return min(free, int(available[1]) * 1024) >= _ROOM_BYTES


def _claim(folder: Path) -> int:
    """Lock a folder as ours, for as long as this process lives. Its lock is in place before the file has its name."""
    lock = os.open(folder / f"{_OWNER}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (folder / f"{_OWNER}.new").rename(folder / _OWNER)
    return lock


def _sweep(installation: Installation) -> None:
    """Remove scratch servers whose owner is gone: those of our account whose lock nobody holds."""
    parents = {_temporary(installation), _MEMORY}
    for folder in chain.from_iterable(parent.glob(f"{_PREFIX}*") for parent in parents):
        # One that resists, or that another process is just removing, must not keep this one from starting.
        with contextlib.suppress(OSError, ServerError), _abandoned(folder, installation) as gone:
            if gone:
                _remove(folder, installation)


@contextlib.contextmanager
def _abandoned(folder: Path, installation: Installation) -> Iterator[bool]:
    if folder.is_symlink() or folder.stat().st_uid not in (installation.account.uid, os.geteuid()):
        yield False
        return
    if not (folder / _OWNER).exists() and time.time() - folder.stat().st_mtime > _LONGEST_BIRTH_S:
        # Its removal was cut short.
        yield True
        return
    # Without a lock file it is just being made, or removed, and this raises.
    lock = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def _remove(folder: Path, installation: Installation) -> None:
    try:
        if postmaster_pid(folder) is not None:
            installation.stop(folder, mode="immediate")
    finally:
        shutil.rmtree(folder)
