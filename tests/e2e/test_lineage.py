"""The lineage commands as people call them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from schema.cli.app import run
from schema.errors import ExitCode
from schema.migrate import prove
from schema.pg.scratch import ScratchServer

ROOT = Path(__file__).parents[2]


class Repo:
    """A project in a git repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.versions = root / "migrations" / "versions"
        self.versions.mkdir(parents=True)
        (root / "alembic.ini").write_text("[alembic]\nscript_location = migrations\n")
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
        done = subprocess.run(["git", *identity, *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout

    def write(self, id_: str, *parents: str, body: str = "pass") -> Path:
        down = "None" if not parents else repr(parents[0]) if len(parents) == 1 else repr(parents)
        path = self.versions / f"{id_}.py"
        path.write_text(
            f'"""Change {id_}.\n\nRevises: {", ".join(parents)}\n"""\n\n# Part of: NEXT_RELEASE_VERSION\n'
            f"revision = '{id_}'\ndown_revision = {down}\n\n\n"
            f"def upgrade():\n    {body}\n\n\ndef downgrade():\n    pass\n"
        )
        return path

    def save(self, tag: str | None = None) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "save")
        if tag:
            self.git("tag", tag)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.chdir(tmp_path)
    made = Repo(tmp_path)
    made.write("a")
    made.write("b", "a")
    made.save()
    return made


def test_heads(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["heads"]) == 0
    assert capsys.readouterr().out == "b (head)  b.py\n"
    repo.write("c", "a")
    assert run(["heads"]) == ExitCode.FINDINGS
    assert capsys.readouterr().out == (
        "b (head)  b.py\nc (head)  c.py\nseveral-heads: 2 heads: b (b.py), c (c.py). "
        "`schemactl merge` joins them; `schemactl rebase` moves an arm that nobody has run yet.\n"
    )
    assert run(["--format", "json", "heads"]) == ExitCode.FINDINGS
    data = json.loads(capsys.readouterr().out)
    assert [head["id"] for head in data["heads"]] == ["b", "c"]
    assert (data["exit_code"], data["ok"], data["revisions"]) == (3, False, 3)
    assert data["findings"][0]["kind"] == "several-heads"
    assert data["findings"][0]["files"] == [str(repo.versions / "b.py"), str(repo.versions / "c.py")]
    assert run(["--format", "github", "heads"]) == ExitCode.FINDINGS
    assert capsys.readouterr().out.startswith(
        "::error file=migrations/versions/b.py,title=lineage several-heads::2 heads"
    )


def test_check_parses_bodies_and_holds_the_head_file(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["heads", "--write"]) == 0
    assert (repo.root / "migrations/HEAD").read_text() == "b\n"
    assert run(["heads", "--check"]) == 0
    repo.write("c", "b", body="pass pass")
    # The quick reading stops at the link.
    assert run(["heads"]) == 0
    capsys.readouterr()
    assert run(["heads", "--check"]) == ExitCode.FINDINGS
    assert "unreadable: " in capsys.readouterr().out
    repo.write("c", "b")
    assert run(["heads", "--check"]) == ExitCode.FINDINGS
    assert "head-file: " in capsys.readouterr().out
    assert run(["heads", "--write"]) == 0
    assert run(["heads", "--check"]) == 0
    repo.write("d", "b")
    capsys.readouterr()
    assert run(["heads", "--write"]) == ExitCode.FINDINGS
    assert "head is ambiguous: c (c.py), d (d.py)" in capsys.readouterr().err
    assert (repo.root / "migrations/HEAD").read_text() == "c\n"


def test_two_heads_conflict_in_git(repo: Repo) -> None:
    run(["heads", "--write"])
    repo.save()
    for branch, id_ in (("one", "c"), ("two", "d")):
        repo.git("switch", "-q", "-c", branch, "main")
        repo.write(id_, "b")
        assert run(["heads", "--write"]) == 0
        repo.save()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        repo.git("merge", "one")
    assert "CONFLICT (content): Merge conflict in migrations/HEAD" in caught.value.stdout


def test_merge(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    repo.write("c", "a", body="op.add_column('users', x)")
    repo.write("b", "a", body="op.drop_column('users', 'y')")
    (repo.root / "migrations/script.py.mako").write_text(
        '"""${message}\n\nRevises: ${down_revision | comma,n}\n"""\n# by the template\n'
        "revision = ${repr(up_revision)}\ndown_revision = ${repr(down_revision)}\n"
    )
    assert run(["merge", "--rev-id", "m", "--dry-run"]) == 0
    assert not (repo.versions / "m_merge_b_and_c.py").exists()
    capsys.readouterr()
    assert run(["merge", "--rev-id", "m"]) == 0
    out = capsys.readouterr()
    assert out.out == f"m merges b, c: {repo.versions / 'm_merge_b_and_c.py'}\n"
    assert "Warning: the arms of b and c may both change users" in out.err
    assert "+# by the template" in out.err
    assert run(["heads", "--check"]) == 0
    assert run(["merge"]) == ExitCode.FINDINGS


def test_rebase(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    run(["heads", "--write"])
    repo.write("c", "a")
    repo.write("d", "c")
    before = (repo.versions / "c.py").read_text()
    capsys.readouterr()
    assert run(["rebase"]) == 0
    out = capsys.readouterr()
    assert out.out == "c, d would stand on b; --apply writes it\n"
    assert "-down_revision = 'a'\n+down_revision = 'b'\n" in out.err
    assert (repo.versions / "c.py").read_text() == before
    assert run(["--format", "json", "rebase", "--apply"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["moved"], data["relinked"], data["heads"], data["written"]) == (["c", "d"], ["c"], ["d"], True)
    assert (repo.root / "migrations/HEAD").read_text() == "d\n"
    assert run(["heads", "--check"]) == 0


def test_a_released_arm_is_merged_instead(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    repo.write("c", "a")
    repo.save("v1")
    assert run(["rebase", "c", "--onto", "b", "--apply"]) == ExitCode.FINDINGS
    assert "c would move, and v1 contains it: a database of that release would skip" in capsys.readouterr().err
    assert run(["rebase", "c", "--onto", "b", "--released-ref", "HEAD~1", "--apply"]) == 0


def test_releases(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lineage", "freeze", "1.0"]) == 0
    assert "# Part of: 1.0\n" in (repo.versions / "b.py").read_text()
    repo.save("v1")
    assert run(["lineage", "integrity", "--record"]) == 0
    assert run(["lineage", "dump", "--ref", "v1", "-o", "v1.json"]) == 0
    assert run(["lineage", "skipped"]) == 0
    repo.write("x", "a")
    repo.write("b", "x")
    capsys.readouterr()
    assert run(["lineage", "skipped"]) == ExitCode.FINDINGS
    assert capsys.readouterr().out == "v1 (at b): NOT CLEAN\n  never run: x  x.py\n"
    repo.git("tag", "-d", "v1")
    assert run(["lineage", "skipped", "--against", "v1.json"]) == ExitCode.FINDINGS
    assert run(["lineage", "integrity"]) == ExitCode.FINDINGS
    assert "edited: b.py: the link of b changed since v1." in capsys.readouterr().out
    assert run(["lineage", "integrity", "--accept", "b"]) == ExitCode.USAGE
    assert run(["lineage", "integrity", "--accept", "b", "--reason", "x has to come first"]) == 0
    assert "x has to come first" in (repo.root / "migrations/integrity.json").read_text()
    assert run(["lineage", "integrity"]) == 0


def test_a_release_that_says_nothing_is_not_passed_over(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    broken = repo.write("b", "a")
    broken.write_text("<<<<<<< HEAD\n")
    repo.save("v1")
    repo.git("mv", "migrations", "moved")
    repo.save("v2")
    repo.git("mv", "moved", "migrations")
    repo.write("b", "a")
    assert run(["lineage", "skipped"]) == 0
    err = capsys.readouterr().err
    assert "Warning: in v1, " in err
    assert "that revision is not counted as released" in err
    assert "Warning: v2 has no revision files where they are now" in err


def test_show(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    repo.save("v1") if repo.git("status", "--short") else repo.git("tag", "v1")
    repo.write("c", "b")
    assert run(["lineage", "show"]) == 0
    assert capsys.readouterr().out == "* c (head)  Change c.\n* b  Change b.\n* a  Change a.\n"
    assert run(["lineage", "show", "--ref", "v1"]) == 0
    assert capsys.readouterr().out == "* b (head)  Change b.\n* a  Change a.\n"
    assert run(["lineage", "show", "--as", "mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart BT\n")
    assert run(["lineage", "show", "--as", "dot"]) == 0
    assert capsys.readouterr().out.startswith("digraph lineage {\n")
    assert run(["--format", "markdown", "lineage", "show"]) == 0
    assert capsys.readouterr().out.startswith("```mermaid\nflowchart BT\n")


def test_backport(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    repo.git("tag", "v1")
    repo.write("c", "b")
    repo.write("fix", "c", body="op.execute('CREATE TABLE IF NOT EXISTS t ()')")
    assert run(["lineage", "backport", "fix", "--at", "v1", "--rev-id", "copy", "--no-prove"]) == 0
    assert not (repo.versions / "copy.py").exists()
    assert run(["lineage", "backport", "fix", "--at", "v1", "--rev-id", "copy", "--no-prove", "--apply"]) == 0
    assert run(["heads", "--check"]) == 0
    assert run(["lineage", "skipped"]) == 0
    assert run(["lineage", "backport", "fix", "--at", "nothing"]) == ExitCode.FAILED


def test_the_wrong_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["heads"]) == 0
    assert "No alembic.ini here: this is the history of " in capsys.readouterr().err
    (tmp_path / "m").mkdir()
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = m\n")
    assert run(["heads"]) == 0
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", f"Warning: there is no folder {tmp_path / 'm' / 'versions'}.\n")
    (tmp_path / "alembic.ini").write_text("[alembic]\n")
    assert run(["heads"]) == ExitCode.USAGE
    assert "says script_location. Run in the project's folder" in capsys.readouterr().err


def test_this_projects_own_history_has_one_head() -> None:
    assert run(["-c", str(ROOT / "alembic.ini"), "heads", "--check"]) == 0


def test_heads_imports_nothing_heavy(repo: Repo) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "schema.cli", "heads"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert imported & {"sqlalchemy", "alembic", "psycopg", "mako", "subprocess", "tomllib", "asyncio"} == set()


PROVED_ENV = (
    "import sqlalchemy as sa\nfrom schema.migrate.settings import run_environment\nrun_environment(sa.MetaData())\n"
)


@pytest.fixture
def one_scratch_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For several proofs; the story of the docs starts its own."""
    with ScratchServer() as server:
        monkeypatch.setattr(prove, "ScratchServer", lambda _: nullcontext(server))
        yield


@pytest.mark.usefixtures("one_scratch_server")
def test_a_backport_is_proved(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """1.0 is at b, 1.1 at c; the fix stands on c and goes to b."""
    (repo.root / "migrations/env.py").write_text(PROVED_ENV)

    def write(id_: str, parent: str, statement: str) -> None:
        repo.write(id_, parent, body=f"from alembic import op; op.execute({statement!r})")

    write("b", "a", "CREATE TABLE users (id int)")
    repo.save("v1.0")
    write("c", "b", "CREATE TABLE others (id int)")
    repo.save("v1.1")
    words = ["lineage", "backport", "fix", "--at", "v1.0", "--rev-id", "copy", "--apply"]

    # It cannot run twice.
    write("fix", "c", "ALTER TABLE users ADD x int")
    assert run(words) == ExitCode.FAILED
    assert 'column "x" of relation "users" already exists' in capsys.readouterr().err
    # It can, but does something else then: a database of 1.1 runs it once.
    twice = "DO $$ BEGIN IF to_regclass('done') IS NOT NULL THEN CREATE TABLE twice (); ELSE CREATE TABLE done (); "
    write("fix", "c", twice + "END IF; END $$")
    assert run(words) == ExitCode.MISMATCH
    printed = capsys.readouterr()
    assert "-CREATE TABLE public.twice (" in printed.out
    assert "v1.0 to head and empty to head end in the same schema." in printed.err
    assert "v1.1 to head and empty to head DIFFER." in printed.err
    assert not (repo.versions / "copy.py").exists()
    write("fix", "c", "ALTER TABLE users ADD COLUMN IF NOT EXISTS x int")
    assert run(["--format", "json", *words]) == ExitCode.OK
    data = json.loads(capsys.readouterr().out)
    assert data["proofs"] == [{"from": name, "differences": []} for name in ("v1.0", "v1.1")]
    assert (repo.versions / "copy.py").exists()
