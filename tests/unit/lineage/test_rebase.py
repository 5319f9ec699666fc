"""Moving an arm: one link changes, everything else stays byte for byte, and nobody skips."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schema.errors import RevisionError
from schema.lineage.files import write_all
from schema.lineage.findings import check
from schema.lineage.git import Repository, released
from schema.lineage.graph import Graph, load
from schema.lineage.layout import Layout
from schema.lineage.rebase import RebaseRefusedError, choose_arm, plan_rebase

Project = Callable[[str], tuple[Layout, Graph]]
Git = Callable[..., str]


def test_only_the_first_revision_of_the_arm_changes(project: Project) -> None:
    layout, graph = project("a<-b, a<-c, c<-d")
    before = {path.stem: path.read_bytes() for path in layout.files()}
    plan = plan_rebase(graph, layout, "d", "b")
    assert {path.stem: path.read_bytes() for path in layout.files()} == before
    write_all(plan.changes)
    after = {path.stem: path.read_bytes() for path in layout.files()}
    assert {name for name in before if before[name] != after[name]} == {"c"}
    assert after["c"] == before["c"].replace(b"Revises: a", b"Revises: b").replace(b"= 'a'", b"= 'b'")
    assert load(layout).heads == ("d",)
    assert check(load(layout)) == []
    assert [revision.id for revision in plan.moved] == ["c", "d"]


def test_a_late_child_of_one_arm_goes_onto_the_merge(project: Project) -> None:
    layout, graph = project("a<-b, a<-c, m<-(b,c), b<-e")
    plan = plan_rebase(graph, layout, "e", "m")
    assert [change.path.stem for change in plan.changes] == ["e"]
    assert plan.graph.heads == ("e",)
    assert plan.graph.revisions["e"].parents == ("m",)
    with pytest.raises(RebaseRefusedError, match="m merges b, which e stands on too"):
        plan_rebase(graph, layout, "m", "e")


def test_an_arm_with_a_merge_of_its_own(project: Project) -> None:
    layout, graph = project("a<-b, a<-c, c<-d, c<-e, m<-(d,e)")
    plan = plan_rebase(graph, layout, "m", "b")
    assert [change.path.stem for change in plan.changes] == ["c"]
    assert plan.graph.heads == ("m",)


STRANGE = (
    b"# -*- coding: latin-1 -*-\r\n'''Gr\xf6\xdfe\r\n\r\nRevises: a   \r\nRevises is a word.\r\n'''\r\n"
    b"revision='c';down_revision : str=(\r\n  'a' # \xe4h\r\n)\r\n\r\ndef upgrade(): x = 'a'\t\r\n"
)


def test_every_other_byte_stays(project: Project) -> None:
    layout, _ = project("a<-b, a<-c")
    path = layout.version_locations[0] / "c.py"
    path.write_bytes(STRANGE)
    write_all(plan_rebase(load(layout), layout, "c", "b").changes)
    assert path.read_bytes() == STRANGE.replace(b"Revises: a ", b"Revises: b ").replace(b"'a' #", b"'b' #")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("revision = 'c'\ndown_revision = ('a',)\n", "revision = 'c'\ndown_revision = 'b'\n"),
        (
            "revision = 'c'\ndown_revision: list[str] = [\n  'a'\n]\n",
            "revision = 'c'\ndown_revision: list[str] = 'b'\n",
        ),
        ("revision = 'c'\ndown_revision = '' + \"a\"\n", "revision = 'c'\ndown_revision = 'b'\n"),
        (
            '\ufeffrevision = "c"\ndown_revision = \'x\'\ndown_revision = "a"',
            '\ufeffrevision = "c"\ndown_revision = \'x\'\ndown_revision = "b"',
        ),
        (
            '"""Ä\n\nRevises:\n"""\nrevision = "c"; down_revision = None\n',
            '"""Ä\n\nRevises: b\n"""\nrevision = "c"; down_revision = "b"\n',
        ),
    ],
)
def test_every_way_to_write_a_link_is_rewritten(project: Project, before: str, after: str) -> None:
    layout, _ = project("a<-b, a<-c")
    path = layout.version_locations[0] / "c.py"
    path.write_bytes(before.encode())
    write_all(plan_rebase(load(layout), layout, "c", "b").changes)
    assert path.read_bytes().decode() == after


def test_a_released_arm_stays(project: Project, git: Git) -> None:
    layout, graph = project("a<-b, a<-c, c<-d")
    git("save", "one")
    (layout.version_locations[0] / "d.py").unlink()
    git("save", "without d")
    git("tag", "v1")
    graph = load(layout)
    releases = released(Repository.around(layout), [])
    for arm, onto in (("c", "b"), ("b", "c")):
        with pytest.raises(RebaseRefusedError, match=f"{arm} would move, and v1 contains it"):
            plan_rebase(graph, layout, arm, onto, releases=releases)


def test_a_stamped_arm_stays(project: Project) -> None:
    layout, graph = project("a<-b, a<-c, c<-d")
    with pytest.raises(RebaseRefusedError, match="prod is stamped at c, which would move: it would skip b"):
        plan_rebase(graph, layout, "d", "b", stamped={"test": ["a"], "prod": ["c"]})
    with pytest.raises(RebaseRefusedError, match="prod is stamped at zz, which has no file here") as caught:
        plan_rebase(graph, layout, "d", "b", stamped={"prod": ["zz"]}, where_is=lambda _: "origin/x")
    assert caught.value.hint == "It is in origin/x: merge that first."
    plan_rebase(graph, layout, "d", "b", stamped={"test": ["a"], "prod": ["b"]})


def test_another_head_on_the_moved_arm_counts_as_moved(project: Project) -> None:
    layout, graph = project("a<-b, a<-c, c<-d, c<-e")
    with pytest.raises(RebaseRefusedError, match="prod is stamped at e, which would move"):
        plan_rebase(graph, layout, "d", "b", stamped={"prod": ["e"]})


def test_mine_is_the_arm_that_the_shared_branch_lacks(project: Project, git: Git, write: Callable[..., Path]) -> None:
    layout, _ = project("a<-b")
    git("save", "main")
    git("switch", "-q", "-c", "feature")
    write("c", "a")
    repository = Repository.around(layout)
    assert choose_arm(load(layout), repository, None, None, None) == ("c", "b")
    assert choose_arm(load(layout), repository, "b", None, None) == ("b", "c")
    assert choose_arm(load(layout), repository, None, "c", None) == ("b", "c")
    git("save", "feature")
    assert choose_arm(load(layout), repository, None, None, None) == ("c", "b")
    with pytest.raises(RevisionError, match="feature has both heads"):
        choose_arm(load(layout), repository, None, None, "feature")
    with pytest.raises(RevisionError, match="a is no head"):
        choose_arm(load(layout), repository, "a", None, None)
    write("d", "a")
    with pytest.raises(RevisionError, match="there are 3 heads: b, c, d"):
        choose_arm(load(layout), repository, None, None, None)


def test_a_broken_history_is_repaired_first(project: Project) -> None:
    layout, _ = project("a<-b, a<-c")
    (layout.version_locations[0] / "c.py").write_text("revision = 'c'\ndown_revision = 'zz'\n")
    with pytest.raises(RebaseRefusedError, match=r"the history is broken: c\.py: c stands on zz, which has no file"):
        plan_rebase(load(layout), layout, "c", "b")


def test_a_cycle_through_a_dependency_is_refused(project: Project) -> None:
    layout, _ = project("a<-b, a<-c")
    path = layout.version_locations[0] / "b.py"
    path.write_text(path.read_text().replace("depends_on = None", "depends_on = 'c'"))
    with pytest.raises(RebaseRefusedError, match="moving c onto b would break the history: 2 revisions stand on each"):
        plan_rebase(load(layout), layout, "c", "b")
