"""What git and dumps say of releases: skipped and edited revisions, missing ones, freezing, backports."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schema.errors import ConfigError, RevisionError, UsageError
from schema.lineage.backport import BackportRefusedError, plan_backport, release_point
from schema.lineage.files import write_all
from schema.lineage.findings import Kind, check
from schema.lineage.freeze import plan_freeze
from schema.lineage.git import Repository, released
from schema.lineage.graph import Graph, load
from schema.lineage.integrity import Ledger, accept, expected, verify
from schema.lineage.layout import Layout, read_layout
from schema.lineage.skipped import View, answers, dump, read_dump

Project = Callable[[str], tuple[Layout, Graph]]
Git = Callable[..., str]
Write = Callable[..., Path]


def repository(layout: Layout) -> Repository:
    found = Repository.around(layout)
    assert found is not None
    return found


def ids(answer: object) -> list[str]:
    return [revision.id for revision in answer.revisions]


def test_a_missing_parent_is_found_in_git(project: Project, git: Git, write: Write) -> None:
    layout, _ = project("a<-b")
    git("save", "main")
    git("switch", "-q", "-c", "feature/x")
    write("c", "b", body='"mentions zz"')
    git("save", "feature")
    git("switch", "-q", "main")
    write("d", "c")
    (missing,) = [
        finding for finding in check(load(layout), repository(layout).ref_with) if finding.kind is Kind.MISSING_PARENT
    ]
    assert missing.hint == "It is in feature/x: merge or cherry-pick it first."
    assert repository(layout).ref_with("zz") is None
    git("branch", "-D", "feature/x")
    assert repository(layout).ref_with("c") is None
    write("c", "b").unlink()


def test_a_deleted_revision_is_found_in_an_older_commit(project: Project, git: Git) -> None:
    layout, _ = project("a<-b, b<-c")
    git("save", "all")
    commit = git("rev-parse", "--short", "HEAD").strip()
    (layout.version_locations[0] / "c.py").unlink()
    git("save", "c is gone")
    assert repository(layout).ref_with("c") in {
        f"commit {commit}",
        f"commit {git('rev-parse', '--short', 'HEAD').strip()}",
    }


def test_a_release_skips_what_came_in_below_its_head(project: Project, git: Git, write: Write) -> None:
    layout, _ = project("a<-d")
    git("save", "one")
    git("tag", "v1")
    write("b", "a")
    write("c", "b")
    write("d", "c")
    write("e", "d")
    releases = released(repository(layout), [])
    (answer,) = answers(load(layout), releases, {}, None, repository(layout))
    assert (answer.subject, answer.stamped, ids(answer), answer.clean) == ("v1", ("d",), ["b", "c"], False)


def test_a_merge_never_skips(project: Project, git: Git, write: Write) -> None:
    layout, _ = project("a<-d")
    git("save", "one")
    git("tag", "v1")
    write("b", "a")
    write("m", "b", "d")
    (answer,) = answers(load(layout), released(repository(layout), []), {}, None, repository(layout))
    assert answer.clean


def test_a_database_that_was_stamped_before_the_relink(project: Project, git: Git, write: Write) -> None:
    layout, _ = project("a<-d")
    git("save", "one")
    first = git("rev-parse", "--short", "HEAD").strip()
    write("b", "a")
    write("c", "b")
    write("d", "c")
    git("save", "two")
    found = answers(load(layout), [], {"prod": ["d"], "new": ["c"]}, None, repository(layout))
    assert [(answer.subject, answer.then, ids(answer)) for answer in found if not answer.clean] == [
        ("prod", f"commit {first}", ["b", "c"])
    ]
    releases = released(repository(layout), ["HEAD"])
    found = answers(load(layout), releases, {"prod": ["d"]}, None, repository(layout))
    assert [answer.clean for answer in found] == [True, True]


def test_a_dump_speaks_for_a_release_that_git_does_not_have(project: Project, tmp_path: Path, write: Write) -> None:
    layout, graph = project("a<-d")
    (tmp_path / "v1.json").write_text(dump(graph, "v1"))
    assert json.loads(dump(graph, "v1"))["heads"] == ["d"]
    write("b", "a")
    write("d", "b")
    found = answers(load(layout), [], {"prod": ["d"], "early": ["a"]}, read_dump(tmp_path / "v1.json"), None)
    assert [(answer.subject, answer.then, ids(answer)) for answer in found] == [
        ("v1", "v1", ["b"]),
        ("prod", "v1", ["b"]),
        ("early", "v1", []),
    ]
    (tmp_path / "v1.json").write_text("{}")
    with pytest.raises(ConfigError, match="is no history dump"):
        read_dump(tmp_path / "v1.json")


def test_an_unknown_stamp_is_named_with_its_ref(project: Project, git: Git, write: Write) -> None:
    layout, _ = project("a<-b")
    git("save", "main")
    git("switch", "-q", "-c", "feature")
    write("c", "b")
    git("save", "feature")
    git("switch", "-q", "main")
    (answer,) = answers(load(layout), [], {"dev": ["c"]}, None, repository(layout))
    assert (answer.unknown, answer.clean) == ((("c", "feature"),), False)


def test_refs_that_are_no_release(project: Project, git: Git) -> None:
    layout, _ = project("a<-b")
    assert repository(layout).commits() == []
    assert repository(layout).ref_with("zz") is None
    git("save", "one")
    git("tag", "key", git("hash-object", "-w", "alembic.ini").strip())
    git("tag", "-a", "-m", "annotated", "v1")
    assert repository(layout).tags() == ["v1"]
    git("tag", "-d", "key", "v1")
    with pytest.raises(UsageError, match="git knows no ref v9"):
        released(repository(layout), ["v9"])
    assert released(repository(layout), []) == []


def test_edits_of_released_revisions(project: Project, git: Git, write: Write) -> None:
    layout, _ = project("a<-b")
    path = write("b", "a", body="op.execute('SELECT 1')")
    git("save", "one")
    git("tag", "v1")
    write("c", "b", body="op.execute('new')")
    entries = expected(Ledger.read(layout.ledger), released(repository(layout), []))
    assert set(entries) == {"a", "b"}
    assert verify(load(layout), entries) == []

    text = path.read_text()
    path.write_text(
        text.replace('"""Change b.', '"""Another title.').replace("    op.execute(", "    # why\n    op.execute( ")
    )
    assert verify(load(layout), entries) == []
    path.write_text(text.replace("SELECT 1", "SELECT 2"))
    (finding,) = verify(load(layout), entries)
    assert (finding.kind, finding.message) == (Kind.EDITED, "b.py: the upgrade of b changed since v1")
    path.write_text(text.replace("SELECT 1", "SELECT 2").replace("down_revision = 'a'", "down_revision = None"))
    assert verify(load(layout), entries)[0].message == "b.py: the link and upgrade of b changed since v1"

    path.write_text(text.replace("SELECT 1", "SELECT 2"))
    with pytest.raises(RevisionError, match="c is in no release"):
        accept(load(layout), entries, "c", "why")
    entries = accept(load(layout), entries, "b", "typo in a comment of the SQL")
    with pytest.raises(RevisionError, match="b is as v1 has it"):
        accept(load(layout), entries, "b", "again")
    write_all(Ledger.read(layout.ledger).change(entries))
    git("tag", "-d", "v1")
    # Without any tag the committed ledger still knows.
    ledger = Ledger.read(layout.ledger)
    assert ledger.entries["b"].accepted == ("typo in a comment of the SQL",)
    assert ledger.change(ledger.entries) == []
    assert verify(load(layout), ledger.entries) == []
    path.unlink()
    assert [finding.message for finding in verify(load(layout), ledger.entries)] == [
        "b is part of v1 and has no file any more"
    ]


def test_what_a_body_uses_counts_with_it(project: Project, git: Git) -> None:
    layout, _ = project("a<-b")
    path = layout.version_locations[0] / "b.py"
    text = (
        "SQL = 'SELECT 1'\nOTHER = 1\ndef helper():\n    return SQL\n"
        "revision = 'b'\ndown_revision = 'a'\ndef upgrade():\n    op.execute(helper())\n"
    )
    path.write_text(text)
    git("save", "one")
    git("tag", "v1")
    entries = expected(Ledger.read(layout.ledger), released(repository(layout), []))
    path.write_text(text.replace("OTHER = 1", "OTHER = 2"))
    assert verify(load(layout), entries) == []
    path.write_text(text.replace("SELECT 1", "SELECT 2"))
    assert len(verify(load(layout), entries)) == 1


def test_a_ledger_in_conflict_is_no_ledger(project: Project) -> None:
    layout, _ = project("a<-b")
    layout.ledger.write_text("<<<<<<< HEAD\n")
    with pytest.raises(ConfigError, match="is no integrity ledger"):
        Ledger.read(layout.ledger)


def test_freeze(project: Project) -> None:
    layout, _ = project("a<-b")
    path = layout.version_locations[0] / "b.py"
    path.write_bytes(b"# Part of: NEXT_RELEASE_VERSION\r\nrevision = 'b'\n# not Part of: NEXT_RELEASE_VERSION\n")
    (change,) = plan_freeze(layout, "26.1.0rc1")
    assert change.after == b"# Part of: 26.1.0rc1\r\nrevision = 'b'\n# not Part of: NEXT_RELEASE_VERSION\n"
    write_all([change])
    assert plan_freeze(layout, "26.2") == []
    for bad in ("NEXT_RELEASE_VERSION", "1 2", "", "1\n2", "\\g<0>"):
        with pytest.raises(UsageError, match="is no version"):
            plan_freeze(layout, bad)


def test_a_backport(project: Project, git: Git, write: Write) -> None:
    layout, _ = project("a<-b, b<-c, b<-d")
    write("m", "c", "d")
    git("save", "one")
    for id_ in "cdm":
        (layout.version_locations[0] / f"{id_}.py").unlink()
    git("save", "release branch")
    git("tag", "v1")
    git("reset", "-q", "--hard", "HEAD~1")
    write("fix", "m", body="op.execute('ALTER TABLE t ADD COLUMN IF NOT EXISTS x int')")
    releases = released(repository(layout), [])
    before = View("before", load(layout))
    point = release_point(load(layout), repository(layout), "v1")
    assert point == "b"
    plan = plan_backport(load(layout), "fix", point, releases=releases, identity="copy")
    write_all(plan.changes)
    after = load(layout, thorough=True)
    assert check(after) == []
    assert after.heads == ("fix",)
    assert [after.revisions[id_].parents for id_ in ("copy", "c", "d", "m", "fix")] == [
        ("b",), ("copy",), ("copy",), ("c", "d"), ("m",),
    ]  # fmt: skip
    text = (layout.version_locations[0] / "copy.py").read_text()
    assert "ADD COLUMN IF NOT EXISTS x int" in text
    assert text.endswith("\n\n# Backport of: fix\n")
    assert "Revision ID: copy\nRevises: b\n" in text
    # v1 runs the copy. A database at m takes it as applied, but runs the original; one made from c alone skips.
    (answer,) = answers(after, releases, {}, None, repository(layout))
    assert (answer.clean, answer.covered) == (True, ())
    found = answers(after, [], {"prod": ["m"]}, before, None)
    assert [(revision.id, by) for revision, by in found[1].covered] == [("copy", "fix")]
    assert found[1].clean


@pytest.mark.parametrize(
    ("shape", "fix", "point", "message"),
    [
        ("a<-b, b<-c", "b", "a", "b is no plain head"),
        ("a<-b, a<-c", "c", "a", "the history is not clean: 2 heads"),
        ("a<-b", "b", "a", "b stands on a directly"),
        ("a<-b, b<-c", "c", "c", "c does not stand on c"),
    ],
)
def test_backports_that_are_refused(project: Project, shape: str, fix: str, point: str, message: str) -> None:
    _, graph = project(shape)
    with pytest.raises(BackportRefusedError, match=message):
        plan_backport(graph, fix, point)


def test_the_versions_folder_may_be_the_repository_itself(project: Project) -> None:
    layout, _ = project("a<-b")
    root = layout.version_locations[0]

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@e.org", *arguments], cwd=root, check=True)

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    git("tag", "v1")
    assert repository(layout).locations == ["."]
    assert released(repository(layout), [])[0].graph.heads == ("b",)
    assert repository(layout).ref_with("b") == "main"


def test_a_folder_named_like_a_pattern(project: Project, git: Git, tmp_path: Path) -> None:
    project("a<-b")
    (tmp_path / "migrations" / "versions").rename(tmp_path / "migrations" / "v[1]*")
    (tmp_path / "alembic.ini").write_text(
        "[alembic]\nscript_location = %(here)s/migrations\npath_separator = os\n"
        "version_locations = %(here)s/migrations/v[1]*\n"
    )
    git("save", "one")
    layout = read_layout(tmp_path / "alembic.ini")
    assert repository(layout).snapshot("HEAD").graph.heads == ("b",)
    assert repository(layout).ref_with("b") == "main"
    assert len(repository(layout).commits()) == 1
