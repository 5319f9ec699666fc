"""Which revisions are reviewed, and what ends a run that does not."""

import json
import subprocess
from pathlib import Path

import pytest

from schema.review.finding import Example
from schema.review.review import Request, review
from tests.conftest import Server
from tests.support.foreign import schemactl
from tests.support.majors import embedded_only
from tests.support.review import reviewed, write

TABLE = Example('op.execute("CREATE TABLE fresh (id int)")', downgrade='op.drop_table("fresh")')
COLUMN = Example('op.execute("ALTER TABLE fresh ADD COLUMN n int")', downgrade='op.drop_column("fresh", "n")')


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, "-C", str(folder), *words], check=True, capture_output=True)


@embedded_only
def test_ranges_and_git_refs(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    write(folder, TABLE, COLUMN)
    newest = folder / "migrations/versions/b2.py"
    kept = newest.read_text()
    newest.unlink()
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    newest.write_text(kept)

    def ids(*words: str) -> list[str]:
        arguments = ("-c", str(folder / "alembic.ini"), "--format", "json", "review", *words, "--no-reverse")
        done = schemactl(*arguments, cache=tmp_path, scratch=server.url("postgres"))
        return [each["revision"] for each in json.loads(done.stdout)["revisions"]]

    assert ids("--since", "HEAD") == ["b2"]
    assert ids("b1:b2") == ["b2"]
    assert ids("a0:head") == ["b1", "b2"]
    assert ids("base:head") == ids(":b2") == ["a0", "b1", "b2"]
    assert ids("--latest", "2") == ["b1", "b2"]
    arguments = ("-c", str(folder / "alembic.ini"), "review")
    unknown = schemactl(*arguments, "nope", cache=tmp_path, scratch=server.url("postgres"))
    assert (unknown.returncode, "nope" in unknown.stderr) == (1, True)
    nothing = schemactl(*arguments, "base", cache=tmp_path, scratch=server.url("postgres"))
    assert (nothing.returncode, "base is no revision" in nothing.stderr) == (1, True)
    both = schemactl(*arguments, "b1", "--latest", "1", cache=tmp_path, scratch=server.url("postgres"))
    assert both.returncode == 2


@embedded_only
@pytest.mark.parametrize("body", ['op.execute("SELECT pg_sleep(60)")', "import time; time.sleep(60)"])
def test_what_hangs_is_ended(server: Server, tmp_path: Path, body: str) -> None:
    result = reviewed(write(tmp_path, Example(body)), server.url("postgres"), patience_s=1.0)
    ((revision, why),) = result.faults
    assert revision.id == "b1"
    assert "terminating connection" in why or "did not end within 1 s" in why


def test_a_downgrade_that_refuses_is_a_note_and_one_that_is_missing_a_warning(server: Server, tmp_path: Path) -> None:
    refuse = 'raise NotImplementedError("no way back")'
    refusing = Example(COLUMN.upgrade, setup="CREATE TABLE fresh ()", downgrade=refuse)
    result = reviewed(write(tmp_path / "one", refusing), server.url("postgres"), reverse=True)
    (finding,) = [each for each in result.findings if each.rule.id == "not-reversible"]
    assert (str(finding.severity), "no way back" in finding.message) == ("note", True)
    missing = Example(COLUMN.upgrade, setup="CREATE TABLE fresh ()")
    result = reviewed(write(tmp_path / "two", missing), server.url("postgres"), reverse=True)
    (finding,) = [each for each in result.findings if each.rule.id == "not-reversible"]
    assert str(finding.severity) == "warning"


@embedded_only
def test_a_project_with_one_transaction_for_all(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path, TABLE, COLUMN, per=False)
    result = reviewed(project, server.url("postgres"))
    assert result.faults == []
    assert [[each.transaction for each in one.trace.statements] for one in result.reviewed] == [[1], [1]]


def test_a_role_that_is_lacking_is_made_on_a_server_of_our_own(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path, Example('op.execute("GRANT SELECT ON app TO reporting")'))
    revisions = (project.revision("b1"),)
    result = review(Request(project, revisions, together=True, pg_bindir=server.bindir, reverse=False))
    assert result.faults == []
    assert [each.sqlstate for each in result.reviewed[0].trace.statements] == [None]
    (revision, why) = reviewed(project, server.url("postgres")).faults[0]
    assert (revision.id, 'role "reporting" does not exist' in why) == ("b1", True)
