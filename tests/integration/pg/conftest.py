"""Helpers for tests of servers: one state folder each, and a way to be an ordinary user."""

import os
import pickle
import pwd
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401 - loaded before the fork of `as_ordinary_user`, see there

from schema.pg.account import server_account
from schema.pg.embedded import EmbeddedServer

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def pg_bindir(server: Any, major: str) -> Path | None:
    """The programs of that major, as --pg-bindir would name them: none for the wheel's."""
    return None if major == "18" else Path(server.bindir)


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A state folder; its server is deleted afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="state-"))
    yield folder
    EmbeddedServer(folder).reset()
    shutil.rmtree(folder)


@pytest.fixture
def embedded(state_dir: Path, pg_bindir: Path | None) -> EmbeddedServer:
    """The embedded server of a fresh state folder, not started."""
    return EmbeddedServer(state_dir, pg_bindir)


@pytest.fixture
def python() -> Callable[..., subprocess.Popen[str]]:
    """Starts Python code, with arguments, in a process and a session of its own."""

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    return start


@pytest.fixture
def as_ordinary_user() -> Callable[[Callable[[Path], Any], Path | None], Any]:
    """Calls a function with a folder of its own as an ordinary user: ourselves, or for root `nobody`, in a fork.

    A fork, because `nobody` may not be able to enter the folder that Python is in.
    """

    def call(function: Callable[[Path], Any], bindir: Path | None) -> Any:
        folder = Path(tempfile.mkdtemp(prefix="user-"))
        try:
            if os.geteuid() != 0:
                return function(folder)
            user = pwd.getpwnam("nobody")
            os.chown(folder, user.pw_uid, user.pw_gid)
            reading, writing = os.pipe()
            with warnings.catch_warnings():
                # Python warns of the workers' other thread; the child starts none and takes none of its locks.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                try:
                    os.setgroups([])
                    os.setgid(user.pw_gid)
                    os.setuid(user.pw_uid)
                    if bindir is not None and not os.access(bindir / "postgres", os.X_OK):
                        outcome = ("skip", f"nobody may not enter {bindir}, and so cannot be the ordinary user")
                    else:
                        outcome = ("value", function(folder))
                except BaseException as error:  # noqa: BLE001 - the parent raises it
                    outcome = ("error", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
                os.write(writing, pickle.dumps(outcome))
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                kind, value = pickle.loads(pipe.read())
            os.waitpid(child, 0)
            if kind == "skip":
                pytest.skip(value)
            assert kind == "value", value
            return value
        finally:
            shutil.rmtree(folder)

    return call


@pytest.fixture
def root_only() -> None:
    """For what only root can arrange."""
    if not server_account().switch:
        pytest.skip("only root can mount a small disk or switch accounts")
