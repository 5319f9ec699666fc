"""Projects of revision files, written from the notation of the field: `a<-b` says that b's down_revision is a."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schema.lineage.graph import Graph, load
from schema.lineage.layout import Layout, read_layout

MakeProject = Callable[[Path, dict[str, tuple[str, ...]]], Layout]


def parents_of(shape: str) -> dict[str, tuple[str, ...]]:
    """`a<-b, m<-(b,c)` as parents by id. Arrows point from the revision to its parents: `m<-(b,c)` is a merge m."""
    parents: dict[str, tuple[str, ...]] = {}
    for one, many, child in re.findall(r"(\w+)<-(?:\(([^)]*)\)|(\w+))", shape):
        if many:
            parents[one] = tuple(many.split(","))
        else:
            parents[child] = (one,)
            parents.setdefault(one, ())
    return parents


def revision_text(id_: str, parents: tuple[str, ...], body: str = "pass") -> str:
    down = "None" if not parents else repr(parents[0]) if len(parents) == 1 else repr(parents)
    return f'''"""Change {id_}.

Revision ID: {id_}
Revises: {", ".join(parents)}
"""

from alembic import op

revision = "{id_}"
down_revision = {down}
branch_labels = None
depends_on = None


def upgrade() -> None:
    {body}


def downgrade() -> None:
    pass
'''


def write_project(folder: Path, parents: dict[str, tuple[str, ...]]) -> Layout:
    versions = folder / "migrations" / "versions"
    versions.mkdir(parents=True, exist_ok=True)
    (folder / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s/migrations\npath_separator = os\n")
    for id_, below in parents.items():
        (versions / f"{id_}.py").write_text(revision_text(id_, below))
    return read_layout(folder / "alembic.ini")


@pytest.fixture(scope="session")
def make_project() -> MakeProject:
    return write_project


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], tuple[Layout, Graph]]:
    """A project of a shape, in tmp_path."""

    def make(shape: str) -> tuple[Layout, Graph]:
        layout = write_project(tmp_path, parents_of(shape))
        return layout, load(layout)

    return make


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Runs git in tmp_path, a fresh repository; `git("save", message)` commits everything."""

    def run(*arguments: str) -> str:
        if arguments[0] == "save":
            run("add", "-A")
            arguments = ("commit", "-q", "--allow-empty", "-m", arguments[1])
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    run("init", "-q", "-b", "main")
    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes one revision file: `write("c", "a")`; further words are its parents, `body` its upgrade."""

    def write_one(id_: str, *parents: str, body: str = "pass") -> Path:
        path = tmp_path / "migrations" / "versions" / f"{id_}.py"
        path.write_text(revision_text(id_, parents, body))
        return path

    return write_one
