"""Plain `alembic`, with no database named anywhere, means the same embedded server as `schemactl`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.history import HEAD, REVISIONS, ROOT

BIN = Path(sys.executable).parent


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    values = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SCHEMACTL_STATE_DIR": str(tmp_path / "state")}
    yield values
    subprocess.run(
        [BIN / "schemactl", "server", "reset", "--yes"], env=values, cwd=ROOT, check=True, capture_output=True
    )


def test_alembic_starts_and_uses_the_embedded_server(environment: dict[str, str]) -> None:
    def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        # Both streams are pipes: a server that held on to them would keep this waiting.
        return subprocess.run(
            [BIN / program, *arguments],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

    started = run("alembic", "upgrade", "head")
    assert started.stderr.count("Running upgrade") == REVISIONS
    status = json.loads(run("schemactl", "--format", "json", "status").stdout)
    assert status["current"] == [HEAD]
    assert status["database"]["source"] == "embedded PostgreSQL 18"
    assert f"Database: {status['database']['url']} (from embedded PostgreSQL 18)" in started.stderr
    assert run("alembic", "current").stdout == f"{HEAD} (head)\n"
