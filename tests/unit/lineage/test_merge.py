"""Merge revisions."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from schema.errors import ConfigError, SchemaError
from schema.lineage.files import write_all
from schema.lineage.findings import check
from schema.lineage.graph import Graph, load
from schema.lineage.layout import Layout, read_layout
from schema.lineage.merge import MergeRefusedError, plan_merge

Project = Callable[[str], tuple[Layout, Graph]]


@pytest.mark.parametrize(
    ("shape", "parents"),
    [
        ("a<-b, a<-c", ("b", "c")),
        ("a<-b, a<-c, c<-d", ("b", "d")),
        ("a<-b, a<-c, a<-d", ("b", "c", "d")),
        ("a<-b, a<-c, m<-(b,c), b<-e", ("e", "m")),
    ],
)
def test_all_real_heads_in_one_merge(project: Project, shape: str, parents: tuple[str, ...]) -> None:
    layout, graph = project(shape)
    write_all(plan_merge(graph, layout, identity="join").changes)
    after = load(layout, thorough=True)
    assert after.revisions["join"].parents == parents
    assert after.heads == ("join",)
    assert check(after) == []


def test_the_file_is_named_as_the_ini_says(tmp_path: Path, project: Project) -> None:
    _, graph = project("a<-b, a<-c")
    (tmp_path / "alembic.ini").write_text(
        "[alembic]\nscript_location = %(here)s/migrations\n"
        "file_template = %%(year)d_%%(month).2d/%%(rev)s_%%(slug)s\nrecursive_version_locations = true\n"
        "truncate_slug_length = 12\n"
    )
    plan = plan_merge(
        graph,
        read_layout(tmp_path / "alembic.ini"),
        message="Join Both, at last!",
        identity="join",
        now=datetime(2026, 3, 4, 5, 6),
    )
    write_all(plan.changes)
    assert (tmp_path / "migrations/versions/2026_03/join_join_both_.py").read_text() == (
        '"""Join Both, at last!\n\nRevision ID: join\nRevises: b, c\nCreate Date: 2026-03-04 05:06:00\n\n"""\n\n'
        "revision = 'join'\ndown_revision = ('b', 'c')\nbranch_labels = None\ndepends_on = None\n\n\n"
        "def upgrade() -> None:\n    pass\n\n\ndef downgrade() -> None:\n    pass\n"
    )


@pytest.mark.parametrize(
    ("shape", "parents", "message"),
    [
        ("p<-q, q<-a, a<-b, a<-c", ("q", "p", "b", "c"), "q is an ancestor of b; p is an ancestor of q"),
        ("a<-b", (), "a merge needs two parents, and here is b"),
        ("a<-b, a<-c, a<-join", (), "join is the id of join.py already"),
        ("a<-b, a<-c", ("b", "b"), "a merge needs two parents, and here is b"),
        ("a<-b, b<-a", (), "the history is broken: 2 revisions stand on each other"),
    ],
)
def test_refusals(project: Project, shape: str, parents: tuple[str, ...], message: str) -> None:
    layout, graph = project(shape)
    with pytest.raises(MergeRefusedError, match=message):
        plan_merge(graph, layout, parents, identity="join")


@pytest.mark.parametrize(
    ("identity", "message", "error"),
    [
        ("x" * 33, "", "has 33 characters, and the version table holds 32"),
        ("x@y", "", "has characters that Alembic refuses: @"),
        ("join", 'three """ quotes', r"join_three_quotes\.py, line "),
    ],
)
def test_what_alembic_would_choke_on_is_not_written(project: Project, identity: str, message: str, error: str) -> None:
    layout, graph = project("a<-b, a<-c")
    with pytest.raises(SchemaError, match=error):
        plan_merge(graph, layout, identity=identity, message=message)


def test_a_phantom_refusal_suggests_the_real_parents(project: Project) -> None:
    layout, graph = project("p<-q, q<-a, a<-b, a<-c")
    with pytest.raises(MergeRefusedError) as caught:
        plan_merge(graph, layout, ("q", "p", "b", "c"))
    assert caught.value.hint == "Merge (b, c)."


def test_arms_that_touch_one_table(project: Project, write: Callable[..., Path]) -> None:
    layout, _ = project("a<-b, a<-c, c<-d")
    write("a", body='op.create_table("users")')
    write("b", "a", body='op.add_column("users", column)')
    write("c", "a", body='op.execute("ALTER TABLE IF EXISTS public.users ADD x int; UPDATE groups SET y = 1")')
    write("d", "c", body='op.create_index("ix", "groups", ["y"])')
    assert plan_merge(load(layout), layout).shared_tables == (("b", "d", "users"),)


def test_the_head_file_goes_along(project: Project) -> None:
    layout, graph = project("a<-b, a<-c")
    layout.head_file.write_text("b\n")
    write_all(plan_merge(graph, layout, identity="join").changes)
    assert layout.head_file.read_text() == "join\n"


def test_a_template_that_makes_something_else_is_refused(project: Project) -> None:
    layout, graph = project("a<-b, a<-c")
    with pytest.raises(ConfigError, match=r"script\.py\.mako makes no revision join on b, c"):
        plan_merge(graph, layout, identity="join", template=lambda _: "revision = 'other'\n")
    assert len(layout.files()) == 3


def test_the_timezone_of_the_ini(project: Project) -> None:
    layout, graph = project("a<-b, a<-c")
    source = plan_merge(graph, replace(layout, timezone="Asia/Seoul")).changes[0].after.decode()
    assert re.search(r"Create Date: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+09:00\n", source)
    with pytest.raises(ConfigError, match="timezone Nowhere is not known here"):
        plan_merge(graph, replace(layout, timezone="Nowhere"))
