"""Random histories: `heads` says what Alembic says, `merge` ends in one head, `rebase` loses and skips nothing."""

import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util import CommandError
from hypothesis import given, settings
from hypothesis import strategies as st

from schema.lineage.files import write_all
from schema.lineage.findings import Kind, check
from schema.lineage.git import Snapshot
from schema.lineage.graph import Graph, load
from schema.lineage.layout import Layout
from schema.lineage.merge import plan_merge
from schema.lineage.rebase import RebaseRefusedError, plan_rebase

Parents = dict[str, tuple[str, ...]]
Make = Callable[[Path, Parents], Layout]


@st.composite
def histories(draw: st.DrawFn, *, broken: bool = False) -> Parents:
    """Parents by id; each stands on earlier ones, or, when `broken`, on anything."""
    count = draw(st.integers(1, 9))
    ids = [f"r{number:03}" for number in range(count)]
    parents: Parents = {}
    for number, id_ in enumerate(ids):
        below = [*ids, "gone"] if broken else ids[:number]
        most = draw(st.sampled_from([1, 1, 1, 2, 3]))
        least = 0 if broken or number == 0 else 1
        parents[id_] = (
            tuple(draw(st.lists(st.sampled_from(below), min_size=least, max_size=most, unique=True))) if below else ()
        )
    return parents


class Folder:
    """A temporary project; hypothesis wants a fresh one for each example."""

    def __init__(self, make: Make, parents: Parents) -> None:
        self.make, self.parents = make, parents

    def __enter__(self) -> Layout:
        self.path = Path(tempfile.mkdtemp(prefix="lineage-"))
        return self.make(self.path, self.parents)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path)


def alembic_heads(layout: Layout) -> set[str] | None:
    """What Alembic says, None where it does not load the history."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return set(ScriptDirectory.from_config(Config(str(layout.config))).get_heads())
        except (CommandError, RevisionError, KeyError):
            return None


DEFECTS = {Kind.CYCLE, Kind.MISSING_PARENT, Kind.ORPHAN_MERGE}


@settings(deadline=None, max_examples=120)
@given(parents=histories(broken=True))
def test_heads_agree_with_alembic(make_project: Make, parents: Parents) -> None:
    with Folder(make_project, parents) as layout:
        theirs = alembic_heads(layout)
        graph = load(layout)
        assert load(layout, thorough=True) == graph
    defects = {finding.kind for finding in check(graph)} & DEFECTS
    if theirs is None:
        assert defects
    else:
        assert set(graph.heads) == theirs
        # Alembic takes a cycle for sound when a base leads into it and a head out of it.
        assert not defects - {Kind.CYCLE}


@settings(deadline=None, max_examples=80)
@given(parents=histories())
def test_merge_always_ends_in_one_head(make_project: Make, parents: Parents) -> None:
    with Folder(make_project, parents) as layout:
        before = load(layout)
        if len(before.heads) == 1:
            return
        plan = plan_merge(before, layout)
        write_all(plan.changes)
        after = load(layout)
        assert alembic_heads(layout) == {plan.revision.id}
    assert after.heads == (plan.revision.id,)
    assert after.revisions.keys() == before.revisions.keys() | {plan.revision.id}
    assert after.revisions[plan.revision.id].parents == before.heads
    assert all(plan.revision.id not in finding.revisions for finding in check(after))


def applied(graph: Graph, heads: tuple[str, ...]) -> set[str]:
    return graph.ancestors(heads)


@settings(deadline=None, max_examples=100)
@given(parents=histories(), data=st.data())
def test_rebase_keeps_every_revision_and_no_release_skips(
    make_project: Make, parents: Parents, data: st.DataObject
) -> None:
    with Folder(make_project, parents) as layout:
        before = load(layout)
        if len(before.heads) == 1:
            return
        arm, onto = data.draw(st.permutations(before.heads))[:2]
        # A release is any part of the history that is closed downwards.
        tips = data.draw(st.lists(st.sampled_from(sorted(parents)), max_size=2))
        released = Graph(tuple(before.ordered(before.ancestors(tips))))
        stamped = {"production": data.draw(st.lists(st.sampled_from(sorted(parents)), max_size=1))}
        contents = {path: path.read_bytes() for path in layout.files()}
        try:
            plan = plan_rebase(before, layout, arm, onto, releases=[Snapshot("v1", released, {})], stamped=stamped)
        except RebaseRefusedError:
            assert {path: path.read_bytes() for path in layout.files()} == contents
            return
        write_all(plan.changes)
        after = load(layout)
        assert alembic_heads(layout) == set(after.heads)
        changed = {path.stem for path in layout.files() if path.read_bytes() != contents[path]}
    assert after.revisions.keys() == before.revisions.keys()
    assert arm in after.heads
    assert onto not in after.heads
    assert changed == {revision.id for revision in plan.relinked}
    for heads in (released.heads, tuple(stamped["production"])):
        assert applied(after, heads) == applied(before, heads)
    assert {finding.kind for finding in check(after)} <= {finding.kind for finding in check(before)}


@settings(deadline=None, max_examples=80)
@given(parents=histories(), data=st.data())
def test_dependencies_labels_and_duplicates_as_alembic_has_them(
    make_project: Make, parents: Parents, data: st.DataObject
) -> None:
    ids = sorted(parents)
    labelled = data.draw(st.sampled_from(ids))
    with Folder(make_project, parents) as layout:
        for id_ in data.draw(st.lists(st.sampled_from(ids), max_size=3, unique=True)):
            needs = data.draw(st.lists(st.sampled_from([*ids, "label", "gone"]), min_size=1, max_size=2, unique=True))
            path = layout.version_locations[0] / f"{id_}.py"
            path.write_text(path.read_text().replace("depends_on = None", f"depends_on = {needs!r}"))
        path = layout.version_locations[0] / f"{labelled}.py"
        path.write_text(path.read_text().replace("branch_labels = None", "branch_labels: str = 'label'"))
        if data.draw(st.booleans()):
            (layout.version_locations[0] / "zz.py").write_text(path.read_text())
        theirs = alembic_heads(layout)
        graph = load(layout)
    found = {finding.kind for finding in check(graph)}
    if theirs is None:
        assert found & {Kind.CYCLE, Kind.MISSING_DEPENDENCY, Kind.DUPLICATE_LABEL}
    else:
        assert set(graph.heads) == theirs
        assert not found & {Kind.MISSING_DEPENDENCY}
