"""What version tables say to rebase and to skipped."""

import subprocess
from pathlib import Path

import psycopg
import pytest

from schema.cli.app import run
from schema.errors import ExitCode
from schema.pg.target import Target

FILES = {"a": None, "b": "a", "c": "a"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    versions = tmp_path / "m" / "versions"
    versions.mkdir(parents=True)
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = m\n")
    for id_, parent in FILES.items():
        (versions / f"{id_}.py").write_text(f"revision = {id_!r}\ndown_revision = {parent!r}\n")
    monkeypatch.chdir(tmp_path)
    return versions


def stamp(url: str, *ids: str, table: str = "alembic_version") -> None:
    with psycopg.connect(Target.parse(url, "test").conninfo) as database:
        database.execute("CREATE SCHEMA IF NOT EXISTS other")
        database.execute(f"CREATE TABLE {table} (version_num varchar(32) PRIMARY KEY)")  # type: ignore[arg-type]
        for id_ in ids:
            database.execute(f"INSERT INTO {table} VALUES (%s)", [id_])  # type: ignore[arg-type]


def test_rebase_asks_every_database(project: Path, empty_database: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["rebase", "c", "--onto", "b", "--apply", "--url", empty_database]
    stamp(empty_database, "c")
    assert run(arguments) == ExitCode.FINDINGS
    assert "is stamped at c, which would move: it would skip b." in capsys.readouterr().err
    assert (project / "c.py").read_text() == "revision = 'c'\ndown_revision = 'a'\n"
    assert run([*arguments, "--version-table", "other.versions"]) == ExitCode.OK
    assert (project / "c.py").read_text() == "revision = 'c'\ndown_revision = 'b'\n"


def test_another_version_table(project: Path, empty_database: str, capsys: pytest.CaptureFixture[str]) -> None:
    stamp(empty_database, "c", table="other.versions")
    arguments = ["rebase", "c", "--onto", "b", "--url", empty_database]
    assert run([*arguments, "--version-table", "other.versions"]) == ExitCode.FINDINGS
    assert run(arguments) == ExitCode.OK


def test_skipped_of_a_database(project: Path, empty_database: str, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=T", "-c", "user.email=t@e.org", *arguments], check=True, cwd=project.parents[1]
        )

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    git("tag", "v1")
    (project / "c.py").write_text("revision = 'c'\ndown_revision = 'b'\n")
    stamp(empty_database, "c")
    assert run(["lineage", "skipped", "--url", empty_database]) == ExitCode.FINDINGS
    out = capsys.readouterr().out
    assert "if it got there with v1): NOT CLEAN\n  never run: b  b.py" in out
    assert "postgres@" in out


def test_a_password_is_never_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for url in ("postgresql://u:s3cret@127.0.0.1:1/x", "postgresql://u:s3cret@@/x", "u:s3cret"):
        assert run(["-vv", "rebase", "c", "--onto", "b", "--url", url]) in (ExitCode.FAILED, ExitCode.USAGE)
        out = capsys.readouterr()
        assert "s3cret" not in out.out + out.err
