"""`schemactl server`, run as people run it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.majors import embedded_only

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def schemactl(server: Any, major: str) -> Iterator[Run]:
    """Runs schemactl with a state folder of its own."""
    state = tempfile.mkdtemp(prefix="state-")
    environment = {"PATH": os.environ["PATH"], "HOME": state, "SCHEMACTL_STATE_DIR": state, "PGHOST": "/nowhere"}
    if major != "18":
        environment["SCHEMACTL_PG_BINDIR"] = str(server.bindir)

    def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "schema.cli", *arguments]
        return subprocess.run(words, cwd=state, env=environment, input=text, capture_output=True, text=True)

    yield run
    assert run("server", "reset", "--yes").returncode == 0
    shutil.rmtree(state)


@pytest.fixture
def running(schemactl: Run) -> Run:
    assert schemactl("server", "start").returncode == 0
    return schemactl


def as_json(schemactl: Run, *arguments: str) -> dict[str, Any]:
    done = schemactl("--format", "json", "server", *arguments)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["command"] == f"server {arguments[0]}"
    return data


def test_start_status_url_stop(schemactl: Run, major: str) -> None:
    started = schemactl("server", "start")
    assert (started.returncode, started.stderr) == (0, "Started.\n"), started.stderr
    assert schemactl("server", "start").stderr == "It runs already.\n"
    url = schemactl("server", "url").stdout.strip()
    assert url == started.stdout.strip()
    with psycopg.connect(url) as connection:
        assert connection.info.dbname == "schemactl"
        assert connection.info.server_version // 10000 == int(major)
    status = schemactl("server", "status")
    assert re.match(r"State     running \(process \d+\)\n", status.stdout)
    assert f"PostgreSQL {major}." in status.stdout
    assert schemactl("server", "stop").stdout == "Stopped.\n"
    assert schemactl("server", "stop").stdout == "It does not run.\n"
    assert schemactl("server", "status").stdout.startswith("State     not running\n")
    assert schemactl("server", "url").stdout.strip() == url


@embedded_only
def test_json(schemactl: Run, major: str) -> None:
    start = as_json(schemactl, "start")
    keys = {"running", "pid", "url", "folder", "account", "data_major", "server_version", "bindir"}
    envelope = {"command", "version", "ok", "exit_code"}
    assert set(start) == keys | envelope | {"started"}
    status = as_json(schemactl, "status")
    assert set(status) == keys | envelope
    assert status["running"] is True
    assert status["data_major"] == major
    assert status["server_version"].startswith(f"{major}.")
    assert as_json(schemactl, "url")["url"] == status["url"]
    assert as_json(schemactl, "stop")["stopped"] is True
    assert as_json(schemactl, "stop")["stopped"] is False
    assert as_json(schemactl, "status")["pid"] is None


@embedded_only
def test_psql_passes_arguments_and_exit_codes_through(running: Run) -> None:
    done = running("server", "psql", "--", "-Atc", "SELECT current_database(), 1+1")
    assert (done.returncode, done.stdout) == (0, "schemactl|2\n"), done.stderr
    assert running("server", "psql", "-At", "-d", "postgres", "-c", "SELECT 5").stdout == "5\n"
    assert running("server", "psql", "-At", text="SELECT 6;").stdout == "6\n"
    failed = running("server", "psql", "-v", "ON_ERROR_STOP=1", "-c", "SELECT 1/0")
    assert (failed.returncode, "division by zero" in failed.stderr) == (1, True)


@embedded_only
def test_psql_starts_the_server(running: Run) -> None:
    running("server", "stop")
    assert running("server", "psql", "-Atc", "SELECT 1").stdout == "1\n"


@embedded_only
def test_reset_asks_first(running: Run) -> None:
    running("server", "psql", "-c", "CREATE TABLE precious ()")
    nobody = running("server", "reset")
    assert nobody.returncode == 2
    assert "Add --yes" in nobody.stderr
    no = running("server", "reset", text="n\n")
    assert (no.returncode, no.stdout) == (1, "Nothing was deleted.\n")
    assert "Delete every database in" in no.stderr
    assert running("server", "psql", "-Atc", "SELECT to_regclass('precious')").stdout == "precious\n"
    yes = running("server", "reset", text="y\n")
    assert yes.returncode == 0
    assert yes.stdout.startswith("Deleted /")
    assert running("server", "reset", "--yes").stdout == "There was nothing to delete.\n"
    assert as_json(running, "reset", "--yes")["deleted"] is False


@embedded_only
def test_a_folder_without_a_server_is_said(schemactl: Run, tmp_path: Path) -> None:
    failed = schemactl("--pg-bindir", str(tmp_path), "server", "start")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr == (
        f"Error: {tmp_path} has no initdb: no PostgreSQL server is installed there. "
        "Give the programs' folder of a server, such as /usr/lib/postgresql/15/bin.\n"
    )
    failed = schemactl("--format", "json", "--pg-bindir", str(tmp_path), "server", "start")
    problem = json.loads(failed.stdout)
    assert (problem["exit_code"], problem["error"]["type"]) == (1, "ServerError")
