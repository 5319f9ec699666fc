"""The guards that people copy: the git hook and the check of the merge result."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GUARDS = Path(__file__).parents[2] / "contrib" / "lineage"
SCRIPTS = Path(sys.executable).parent


class Repo:
    """A project in a git repository, in which commands run as in a shell."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "migrations" / "versions").mkdir(parents=True)
        (root / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s/migrations\n")
        self.run("git", "init", "-q", "-b", "main")
        self.write("a", None)
        self.write("b", "a")
        self.commit()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
            **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        return subprocess.run(arguments, cwd=self.root, capture_output=True, text=True, env=environment)

    def write(self, id_: str, parent: str | None) -> None:
        (self.root / f"migrations/versions/{id_}.py").write_text(f"revision = {id_!r}\ndown_revision = {parent!r}\n")

    def commit(self) -> subprocess.CompletedProcess[str]:
        self.run("git", "add", "-A")
        return self.run("git", "commit", "-q", "-m", "save")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path)


def test_the_hook_refuses_a_second_head(repo: Repo) -> None:
    shutil.copy(GUARDS / "pre-commit", repo.root / ".git/hooks/pre-commit")
    repo.write("c", "b")
    done = repo.commit()
    assert (done.returncode, done.stderr) == (0, "c (head)  c.py\n")
    repo.write("d", "b")
    done = repo.commit()
    assert done.returncode == 1
    assert "several-heads: 2 heads: c (c.py), d (d.py)" in done.stderr
    assert "Commit refused" in done.stderr
    # Only what is staged counts.
    repo.run("git", "rm", "-q", "--cached", "migrations/versions/d.py")
    (repo.root / "README").write_text("x")
    repo.run("git", "add", "README")
    assert repo.run("git", "commit", "-q", "-m", "readme").returncode == 0


def test_two_green_branches_that_make_a_red_main(repo: Repo) -> None:
    check = str(GUARDS / "check-merge-result")
    repo.run("git", "switch", "-q", "-c", "mine")
    repo.write("c", "b")
    repo.commit()
    assert (repo.run("schemactl", "heads", "--check").returncode, repo.run(check, "main").returncode) == (0, 0)
    repo.run("git", "switch", "-q", "main")
    repo.write("d", "b")
    repo.commit()
    assert repo.run("schemactl", "heads", "--check").returncode == 0
    repo.run("git", "switch", "-q", "mine")
    assert repo.run("schemactl", "heads", "--check").returncode == 0
    done = repo.run(check, "main")
    assert done.returncode == 3
    assert "several-heads: 2 heads: c (c.py), d (d.py)" in done.stdout
    assert repo.run("git", "status", "--short").stdout == ""


def test_a_conflict_is_said_to_be_one(repo: Repo) -> None:
    for branch, id_ in (("one", "c"), ("two", "d")):
        repo.run("git", "switch", "-q", "-c", branch, "main")
        repo.write(id_, "b")
        assert repo.run("schemactl", "heads", "--write").returncode == 0
        repo.commit()
    done = repo.run(str(GUARDS / "check-merge-result"), "one", "two")
    assert done.returncode == 3
    assert "two does not merge into one:\nmigrations/HEAD\n" in done.stderr
