"""`schemactl status`, `upgrade` and `downgrade`: exit codes, both streams, whole outputs."""

import json
import os
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from schema.cli import run
from schema.migrate.lock import only_runner
from schema.pg.target import Target
from tests.support.history import HEAD, REVISIONS, Database, alembic, ini, project, psql, until


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
        "left",
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
    assert re.fullmatch(rf"Downgraded from {HEAD} to base: {REVISIONS} revisions in \d+\.\d s\.\n", cli.output)
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
        "Pending   4",
        "          0d9b5c7e83f2 Validate the foreign key of kernel_groups.bootstrap_script_revision_id.",
        "          a3e7f1c6d840 Index kernel_groups.bootstrap_script_revision_id.",
        "          4b7d2f9a0c63 Create the deployment revision tables.",
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
    assert (code, data["current"], data["heads"], len(data["pending"])) == (0, [], [HEAD], REVISIONS)
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


def test_a_plan_that_leaves_several_rows_is_refused(cli: Cli) -> None:
    assert cli("upgrade", "51d33226c0a5") == 0
    assert cli("upgrade", "c9e1b7a4d2f0") == 3
    assert cli.messages.splitlines()[-1] == (
        "Error: c9e1b7a4d2f0 leaves 2 rows in the version table: 51d33226c0a5, c9e1b7a4d2f0 (now 51d33226c0a5). --yes "
        "(of alembic: -x yes) does so all the same; a revision that merges them, or one below where they part, leaves "
        "one."
    )
    plain = alembic("upgrade", "c9e1b7a4d2f0", url=cli.url)
    assert plain.returncode != 0
    assert "c9e1b7a4d2f0 leaves 2 rows in the version table: 51d33226c0a5, c9e1b7a4d2f0" in plain.stderr
    assert cli.database.current() == ("51d33226c0a5",)
    assert cli("upgrade", "--yes", "c9e1b7a4d2f0") == 0
    assert cli.database.current() == ("51d33226c0a5", "c9e1b7a4d2f0")
    assert cli("downgrade", "-1") == 3
    assert "-1 is ambiguous: the history parts at 51d33226c0a5, c9e1b7a4d2f0" in cli.messages
    cli("upgrade", "e7f4c2a98b10")
    for arguments in (["-1"], ["--dry-run", "-1"], ["-2"]):
        assert cli("downgrade", *arguments) == 3
        assert cli.messages.endswith(
            "is ambiguous: the history parts at e7f4c2a98b10. Name where to go, `schemactl downgrade REVISION`: "
            "51d33226c0a5, c9e1b7a4d2f0.\n"
        )
    assert cli("downgrade", "51d33226c0a5") == 3
    cli("downgrade", "3b8e1d6c9a47")
    assert cli("upgrade", "+1") == 3
    assert "`schemactl upgrade REVISION`: 51d33226c0a5, c9e1b7a4d2f0" in cli.messages
    assert cli.database.current() == ("3b8e1d6c9a47",)


def psql_script(database: Database, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    url = database.target.url.set(drivername="postgresql").render_as_string(hide_password=False)
    return subprocess.run([psql(), "-X", "-q", *options, "-d", url], input=script, capture_output=True, text=True)


@pytest.mark.parametrize("options", [[], ["-v", "ON_ERROR_STOP=1"]])
def test_a_dry_run_prints_a_script_that_runs_once_and_here_only(cli: Cli, options: list[str]) -> None:
    cli("upgrade", "3b8e1d6c9a47")
    before = cli.database.catalog()
    assert cli("upgrade", "--dry-run", "--yes", "c9e1b7a4d2f0") == 0
    script = cli.output
    assert "CREATE INDEX CONCURRENTLY ix_session_dependencies_depends_on" in script
    assert cli.database.catalog() == before
    assert cli.json("upgrade", "--dry-run", "--yes", "c9e1b7a4d2f0")[1]["sql"].rstrip() == script.rstrip()

    done = psql_script(cli.database, script, *options)
    assert done.returncode == 0, done.stderr
    assert cli.database.current() == ("c9e1b7a4d2f0",)
    after = cli.database.catalog()
    again = psql_script(cli.database, script, *options)
    assert again.returncode != 0
    assert (
        "this script is for a database at 3b8e1d6c9a47, and this one is at c9e1b7a4d2f0; nothing was changed"
        in again.stderr
    )
    assert cli.database.catalog() == after
    cli("downgrade", "base")
    empty = cli.database.catalog()
    elsewhere = psql_script(cli.database, script, *options)
    assert elsewhere.returncode != 0
    assert "this one is at no revision" in elsewhere.stderr
    assert cli.database.catalog() == empty


def test_a_revision_that_needs_a_connection_has_no_script(cli: Cli, tmp_path: Path) -> None:
    cli.database.config = project(
        tmp_path,
        "op.execute('CREATE TABLE a (n int)')",
        "assert op.get_bind().exec_driver_sql('SELECT count(*) FROM a').scalar_one() == 0",
    )
    assert cli("upgrade", "--dry-run") == 1
    assert cli.output == ""
    assert "Error: r2 cannot be written as a script, since it needs a connection to the database (" in cli.messages
    file = tmp_path / "history/versions/r2.py"
    file.write_text(file.read_text().replace("def upgrade", "needs_connection = True\n\n\ndef upgrade", 1))
    assert cli("upgrade", "--dry-run") == 1
    assert "(needs_connection = True in it says so)" in cli.messages
    plain = alembic("upgrade", "head", "--sql", config=cli.database.config)
    assert plain.returncode != 0
    assert "needs_connection = True in it says so" in plain.stdout + plain.stderr
    assert "CREATE" not in plain.stdout
    assert cli("upgrade", "--dry-run", "r1") == 0
    assert cli("upgrade") == 0


def test_when_the_time_is_up(cli: Cli) -> None:
    assert cli("upgrade", "--until-time", "2020-01-01T00:00", "+2") == 4
    assert cli.output == (
        "Nothing begun: the database is at base. Time is up, with 2 left: 8c1f0a5e2d73, d4a27f90b6e1.\n"
    )
    code, data = cli.json("upgrade", "--until-time", "2020-01-01T00:00", "+1")
    assert (code, data["left"], data["after"]) == (4, ["8c1f0a5e2d73"], [])
    assert cli("upgrade", "--until-time", "noon") == 2
    # The next 00:00 is always ahead.
    assert cli("upgrade", "--until-time", "00:00", "+1") == 0


def test_the_git_ref_that_has_an_unknown_revision_is_named(cli: Cli, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    cli.database.config = project(tmp_path, "pass", "pass")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "two")
    git("branch", "newer")
    cli("upgrade")
    (tmp_path / "history/versions/r2.py").unlink()
    git("commit", "-qam", "one")
    for command in ("upgrade", "status"):
        assert cli(command) == 1
        assert f"Error: the database is at revision r2, which {tmp_path}/history does not have." in cli.messages
        assert "In git, r2 is in newer: use those files." in cli.messages
    plain = alembic("upgrade", "head", url=cli.database.url, config=cli.database.config)
    assert plain.returncode != 0
    assert "In git, r2 is in newer: use those files." in plain.stderr


class Releases:
    """A project in git: 1.0 has a <- d; 1.1 put b and c below d, as nobody should."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ini = project(folder)
        self.git("init", "-q", "-b", "main")
        self.write("a", None, "CREATE TABLE a (n int)")
        self.write("d", "a", "CREATE TABLE d (n int)")
        self.save("v1.0")

    def relink(self) -> None:
        self.write("b", "a", "CREATE TABLE b (n int)")
        self.write("c", "b", "CREATE TABLE c (n int)")
        self.write("d", "c", "CREATE TABLE d (n int)")
        self.write("e", "d", "CREATE TABLE e (n int)")

    def git(self, *words: str) -> str:
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def save(self, tag: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", tag)
        self.git("tag", tag)

    def write(self, id_: str, parent: str | None, statement: str) -> None:
        (self.folder / f"history/versions/{id_}.py").write_text(
            f'"""Revision {id_}."""\n\nfrom alembic import op\n\nrevision = {id_!r}\ndown_revision = {parent!r}\n'
            f'\n\ndef upgrade():\n    op.execute("{statement}")\n\n\ndef downgrade():\n    pass\n'
        )


@pytest.fixture
def releases(cli: Cli, tmp_path: Path) -> Releases:
    made = Releases(tmp_path)
    cli.database.config = made.ini
    return made


def test_an_upgrade_that_would_skip_revisions_is_refused(cli: Cli, releases: Releases) -> None:
    cli("upgrade")
    releases.relink()
    before = cli.database.catalog()
    assert cli("upgrade") == 3
    assert cli.messages.splitlines()[-1] == (
        "Error: the database, at d, would skip revisions for ever: if it got there with v1.0, b, c never ran. "
        "`schemactl upgrade --missing` runs them first; `schemactl upgrade --yes`, or `alembic -x yes`, goes on "
        "without them."
    )
    assert cli.database.catalog() == before
    assert cli("status") == 0
    assert "Skipped   b, c never ran, if the database got there with v1.0\n" in cli.output
    assert "Finding   edited: d.py: the link of d changed since v1.0." in cli.output

    assert cli("upgrade", "--missing") == 0
    assert "[2/3] Upgrading to c Revision c." in cli.messages
    assert cli.database.current() == ("e",)
    assert all(cli.database.table_exists(name) for name in "abcde")
    # Known from now on, to a downgraded database too.
    cli.database.run("DROP TABLE e", "UPDATE alembic_version SET version_num = 'd'")
    assert cli("upgrade") == 0
    assert cli.json("status")[1]["skipped"] == []


def test_without_releases_the_commits_of_the_branch_tell(cli: Cli, releases: Releases) -> None:
    cli("upgrade")
    releases.git("tag", "-d", "v1.0")
    first = releases.git("rev-parse", "HEAD")
    releases.relink()
    releases.save("v1.1")
    releases.git("tag", "-d", "v1.1")
    assert cli("upgrade", "--missing") == 3
    assert re.search(
        f"if it got there with commit [0-9a-f]+, all ran; if it got there with commit {first[:7]}, b, c", cli.messages
    )
    assert cli("upgrade", "--missing", "--released-ref", first) == 0
    assert all(cli.database.table_exists(name) for name in "abcde")


def test_what_a_merged_branch_was_like_is_nobodys_history(cli: Cli, releases: Releases) -> None:
    """A revision that was moved on its branch, before the merge: no database of the main line was without b and c."""
    releases.git("tag", "-d", "v1.0")
    releases.git("reset", "-q", "--hard")
    releases.git("checkout", "-q", "-b", "arm")
    releases.write("f", "d", "CREATE TABLE f (n int)")
    releases.save("before")
    releases.git("checkout", "-q", "-")
    releases.write("b", "d", "CREATE TABLE b (n int)")
    releases.save("main")
    releases.git("checkout", "-q", "arm")
    releases.git("merge", "-q", "--no-edit", "main")
    releases.write("f", "b", "CREATE TABLE f (n int)")
    releases.save("moved")
    releases.git("checkout", "-q", "-")
    releases.git("merge", "-q", "--no-ff", "--no-edit", "arm")
    for tag in ("before", "main", "moved"):
        releases.git("tag", "-d", tag)
    assert cli("upgrade") == 0
    assert cli("status") == 0
    assert "Skipped" not in cli.output
    releases.write("g", "f", "CREATE TABLE g (n int)")
    assert cli("upgrade") == 0
    assert all(cli.database.table_exists(name) for name in "adbfg")


def test_plain_alembic_refuses_to_skip_too(cli: Cli, releases: Releases) -> None:
    cli("upgrade")
    releases.relink()
    before = cli.database.catalog()
    plain = alembic("upgrade", "head", url=cli.url, config=cli.database.config)
    assert plain.returncode != 0
    assert "the database, at d, would skip revisions for ever: if it got there with v1.0, b, c" in plain.stderr
    assert cli.database.catalog() == before
    plain = alembic("-x", "yes", "upgrade", "head", url=cli.url, config=cli.database.config)
    assert plain.returncode == 0, plain.stderr
    assert cli.database.current() == ("e",)
    assert not cli.database.table_exists("b")
    # A downgrade skips nothing.
    assert alembic("downgrade", "d", url=cli.url, config=cli.database.config).returncode == 0


def test_missing_revisions_run_in_order_or_say_why_not(cli: Cli, releases: Releases) -> None:
    cli("upgrade")
    releases.relink()
    cli.database.run("CREATE TABLE c (x text)")
    assert cli("upgrade", "--missing") == 1
    message = cli.messages.splitlines()[-1]
    assert message.startswith(f"Error: revision c ({releases.folder}/history/versions/c.py) failed: PostgreSQL says: ")
    assert 'relation "c" already exists (SQLSTATE 42P07); committed by this run: b. It seems to be there' in message
    assert cli.database.current() == ("d",)
    assert cli("upgrade") == 3
    assert "if it got there with v1.0, c never ran" in cli.messages
    cli.database.run("DROP TABLE c")
    assert cli("upgrade", "--missing") == 0
    assert cli.database.value("SELECT obj_description('alembic_version'::regclass)") == "run late by schemactl: b c"


def test_a_stamp_that_two_releases_give_must_be_told_apart(cli: Cli, releases: Releases) -> None:
    cli("upgrade")
    releases.relink()
    releases.save("v1.1")
    releases.write("f", "e", "CREATE TABLE f (n int)")
    assert cli("upgrade", "--missing") == 3
    assert "it is not known which revisions the database lacks" in cli.messages
    assert "if it got there with v1.1, all ran" in cli.messages
    assert cli("lineage", "dump", "--ref", "v1.0", "-o", str(releases.folder / "dump.json")) == 0
    assert cli("upgrade", "--missing", "--against", str(releases.folder / "dump.json"), "+1") == 0
    assert cli.database.table_exists("c")
    assert cli("upgrade", "--released-ref", "v1.0") == 0
    assert cli.database.current() == ("f",)


def test_status_shows_who_is_at_work(cli: Cli) -> None:
    cli("upgrade", "d4a2")
    with (
        only_runner(cli.database.target, wait_s=1, report=print) as lock,
        cli.database.connection() as one,
        one.transaction(),
    ):
        one.execute("LOCK TABLE kernels")
        waiter = threading.Thread(target=lambda: cli.database.run("SELECT count(*) FROM kernels"))
        waiter.start()
        until(lambda: cli.database.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1)
        code, data = cli.json("status")
        assert cli("status") == 0
        output = cli.output
        pid = lock.connection.info.backend_pid
        blocker = one.info.backend_pid
    waiter.join()
    assert code == 0
    assert (data["runner"]["pid"], data["waiting"][0]["blocked_by"]) == (pid, [blocker])
    assert re.search(rf"^Runner    at work: server process {pid} for .* \({os.getpid()}\), since \d+ s$", output, re.M)
    assert re.search(rf"^Locks     server process \d+ waits for {blocker}, since \d+ s$", output, re.M)
