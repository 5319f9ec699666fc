"""`schemactl status`, `upgrade` and `downgrade`: exit codes, both streams, whole outputs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from schema.cli import run
from schema.pg.target import Target
from tests.support.history import HEAD, Database, ini


class Cli:
    """Runs commands on a database, a password in its URL, and keeps what they print."""

    def __init__(self, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
        self.database = database
        self.capsys = capsys
        self.url = database.target.url.set(password="sekret").render_as_string(hide_password=False)
        self.shown = Target.parse(self.url, "test").masked
        self.output = self.messages = ""

    def __call__(self, *arguments: str) -> int:
        code = run(["-c", str(self.database.config), "--url", self.url, *arguments])
        self.output, self.messages = self.capsys.readouterr()
        assert "sekret" not in self.output + self.messages
        assert "Traceback" not in self.messages
        return code

    def json(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        code = self("--format", "json", *arguments)
        return code, json.loads(self.output)


@pytest.fixture
def cli(database: Database, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(database, capsys)


def test_upgrade_tells_of_each_revision(cli: Cli) -> None:
    assert cli("upgrade", "d4a2") == 0
    assert re.sub(r"\d+\.\d+ s", "N s", cli.messages).splitlines() == [
        f"Database: {cli.shown} (from --url)",
        "[1/2] Upgrading to 8c1f0a5e2d73 Create the cluster's tables.",
        "[1/2] done in N s",
        "[2/2] Upgrading to d4a27f90b6e1 Index the running, the terminated and the recently changed kernels.",
        "[2/2] done in N s",
    ]
    assert re.fullmatch(r"Upgraded from base to d4a27f90b6e1: 2 revisions in \d+\.\d s\.\n", cli.output)
    assert cli("upgrade") == 0
    assert cli("-q", "upgrade") == 0
    assert (cli.output, cli.messages) == (f"Nothing to do: the database is at {HEAD}.\n", "")


def test_upgrade_and_downgrade_as_json(cli: Cli) -> None:
    code, data = cli.json("upgrade", "+1")
    assert code == 0
    assert set(data) == {
        "command", "version", "ok", "exit_code", "database", "before", "after", "seconds", "revisions",
    }  # fmt: skip
    assert (data["command"], data["ok"], data["before"], data["after"]) == ("upgrade", True, [], ["8c1f0a5e2d73"])
    assert data["database"] == {"url": cli.shown, "source": "--url"}
    assert [(step["revision"], step["title"]) for step in data["revisions"]] == [
        ("8c1f0a5e2d73", "Create the cluster's tables.")
    ]
    assert data["seconds"] >= data["revisions"][0]["seconds"] > 0

    code, data = cli.json("downgrade", "-1")
    assert (code, data["before"], data["after"]) == (0, ["8c1f0a5e2d73"], [])
    assert "[1/1] Downgrading from 8c1f0a5e2d73 Create the cluster's tables." in cli.messages


def test_downgrade_to_base(cli: Cli) -> None:
    cli("upgrade")
    assert cli("downgrade", "base") == 0
    assert re.fullmatch(rf"Downgraded from {HEAD} to base: 16 revisions in \d+\.\d s\.\n", cli.output)
    assert not cli.database.table_exists("sessions")
    assert cli("downgrade", "base") == 0
    assert cli.output == "Nothing to do: the database is at base.\n"
    assert cli("downgrade") == 2


def test_status(cli: Cli, major: str) -> None:
    cli("upgrade", "f8a1")
    assert cli("status") == 0
    assert re.sub(r"PostgreSQL (\d+)\.\d+", r"PostgreSQL \1", cli.output).splitlines() == [
        f"Database  {cli.shown} (from --url)",
        f"Server    PostgreSQL {major}",
        "Current   f8a1637d2e5b",
        f"Head      {HEAD}",
        "Pending   3",
        "          0d9b5c7e83f2 Validate the foreign key of kernel_groups.bootstrap_script_revision_id.",
        "          a3e7f1c6d840 Index kernel_groups.bootstrap_script_revision_id.",
        "          4e2a9c7f1b58 Backfill ledger: phases, what workers do, rows set aside.",
        "Backfill  never run",
    ]
    cli("upgrade")
    assert cli("status") == 0
    assert "Pending   nothing\n" in cli.output
    cli("seed", "--sessions", "1000")
    assert cli("backfill") == 5
    assert cli("status") == 0
    assert "Backfill  complete, 100.0%: 1,000 of 1,000 sessions, 1 rejects" in cli.output
    code, data = cli.json("status")
    assert (code, data["backfill"]["state"], data["backfill"]["totals"]["sessions"]) == (0, "complete", 1000)


def test_status_changes_nothing(cli: Cli) -> None:
    before = cli.database.catalog()
    code, data = cli.json("status")
    assert (code, data["current"], data["heads"], len(data["pending"])) == (0, [], [HEAD], 16)
    assert (data["tables"], data["foreign"]) == (0, False)
    assert cli.database.catalog() == before


def test_status_of_a_database_of_somebody_else(cli: Cli) -> None:
    cli.database.run("CREATE TABLE invoices (n int)", "CREATE TABLE orders (n int)")
    assert cli("status") == 0
    assert "The database holds 2 tables and no revision: they were made another way." in cli.output


def test_failures_are_one_paragraph_with_their_exit_code(cli: Cli, tmp_path: Path) -> None:
    cli.database.run("CREATE TABLE sessions (n int)")
    assert cli("upgrade") == 1
    assert cli.output == ""
    assert cli.messages.splitlines()[-1].startswith("Error: revision 8c1f0a5e2d73 (")
    code, data = cli.json("upgrade")
    assert (code, data["ok"], data["exit_code"], data["error"]["type"]) == (1, False, 1, "RevisionError")
    assert cli("upgrade", "nowhere") == 1
    assert cli.messages.splitlines()[-1].startswith("Error: Can't locate revision identified by 'nowhere'. The history")

    cli.database.config = ini(tmp_path, script_location=tmp_path / "gone")
    for command in ("status", "upgrade"):
        assert cli(command) == 2
        assert "does not lead to an Alembic history" in cli.messages


def test_ctrl_c_between_two_revisions(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(doing: str, step: Any) -> None:
        if step.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("schema.cli.upgrade.say", lambda app, doing, step: interrupted(doing, step))
    assert cli("upgrade") == 130
    assert cli.messages.splitlines()[-1] == "Interrupted."
    assert cli.database.current() == ("8c1f0a5e2d73",)
