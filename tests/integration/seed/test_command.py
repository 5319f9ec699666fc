"""`schemactl seed` on a database."""

import json

import psycopg
import pytest

from schema.cli.app import run
from schema.errors import ExitCode
from schema.seed import load
from schema.seed.block import BLOCK_SIZE


def test_text(head_database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", head_database, "seed", "--sessions", "1200"]) == ExitCode.OK
    captured = capsys.readouterr()
    lines = [line.split() for line in captured.out.splitlines()]
    assert ["sessions", "1,200"] in lines
    assert ["endpoints", "16"] in lines
    assert captured.err.startswith("Database: ")
    assert len(captured.err.splitlines()) == 1


def test_json(head_database: str, connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--url", head_database, "-q", "--format", "json", "seed", "--sessions", "30", "--profile", "clean"]
    assert run([*arguments, "--seed", "5"]) == ExitCode.OK
    captured = capsys.readouterr()
    assert captured.err == ""
    data = json.loads(captured.out)
    assert (data["command"], data["ok"], data["exit_code"]) == ("seed", True, 0)
    assert (data["sessions"], data["seed"], data["profile"]) == (30, 5, "clean")
    assert data["seconds"] > 0
    assert data["rows"].pop("resource_slot_types") == 0
    for table, number in data["rows"].items():
        query = psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(table))
        assert connection.execute(query).fetchone() == (number,), table

    assert run([*arguments, "--seed", "5"]) == ExitCode.FAILED
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: seed 5 is in this database already")
    assert json.loads(captured.out)["error"]["type"] == "DatabaseError"


def test_interrupted(
    head_database: str,
    connection: psycopg.Connection,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = load._write_block
    blocks = iter([write, write])

    def interrupted(*arguments: object) -> None:
        if (go_on := next(blocks, None)) is None:
            raise KeyboardInterrupt
        go_on(*arguments)

    monkeypatch.setattr(load, "_write_block", interrupted)
    assert run(["--url", head_database, "seed", "--sessions", "10000"]) == ExitCode.INTERRUPTED
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (2 * BLOCK_SIZE,)
    assert "4,000 of 10,000 sessions are written. Go on with another --seed.\n" in capsys.readouterr().err
