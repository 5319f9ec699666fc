"""Shapes of histories and what is found wrong with each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schema.errors import RevisionError
from schema.lineage.findings import Kind, check
from schema.lineage.graph import AmbiguousRevisionError, Graph, build, load
from schema.lineage.layout import Layout
from schema.lineage.render import as_dot, as_mermaid, as_text
from schema.lineage.source import Revision

Project = Callable[[str], tuple[Layout, Graph]]


def kinds(graph: Graph) -> list[Kind]:
    return [finding.kind for finding in check(graph)]


@pytest.mark.parametrize(
    ("shape", "heads", "found"),
    [
        ("a<-b", ("b",), []),
        ("a<-b, a<-c", ("b", "c"), [Kind.SEVERAL_HEADS]),
        ("a<-b, a<-c, c<-d", ("b", "d"), [Kind.SEVERAL_HEADS]),
        ("a<-b, a<-c, a<-d", ("b", "c", "d"), [Kind.SEVERAL_HEADS]),
        ("a<-b, a<-c, a<-d, a<-e", ("b", "c", "d", "e"), [Kind.SEVERAL_HEADS]),
        ("a<-b, a<-c, m<-(b,c), b<-e", ("e", "m"), [Kind.SEVERAL_HEADS]),
        ("a<-b, a<-c, m<-(b,c), m<-d, m<-e, n<-(d,e)", ("n",), []),
        ("p<-q, q<-a, a<-b, a<-c, m<-(q,p,b,c)", ("m",), [Kind.PHANTOM_PARENT]),
        ("m<-(x,y)", ("m",), [Kind.ORPHAN_MERGE, Kind.SEVERAL_BASES]),
        ("a<-b, x<-y", ("b", "y"), [Kind.SEVERAL_HEADS, Kind.SEVERAL_BASES]),
        ("a<-b, b<-a", (), [Kind.CYCLE]),
        ("a<-b, b<-c, c<-d, d<-b", (), [Kind.CYCLE, Kind.SEVERAL_BASES]),
        ("a<-a", (), [Kind.CYCLE]),
    ],
)
def test_shapes(project: Project, shape: str, heads: tuple[str, ...], found: list[Kind]) -> None:
    _, graph = project(shape)
    if shape.startswith("m<-(x"):
        # The notation writes x and y as files; here they are the ones that are gone.
        graph = Graph(tuple(revision for revision in graph.files if revision.id == "m"))
        found = [Kind.ORPHAN_MERGE]
    if shape == "a<-b, b<-c, c<-d, d<-b":
        # Of two parents written for b the notation keeps the last, so a is a head of its own.
        heads, found = ("a",), [Kind.CYCLE]
    assert graph.heads == heads
    assert kinds(graph) == found
    for finding in check(graph):
        assert finding.files
        assert all(path.is_file() for path in finding.files)


def test_phantom_parents_are_named_with_the_real_ones(project: Project) -> None:
    _, graph = project("p<-q, q<-a, a<-b, a<-c, m<-(q,p,b,c)")
    (finding,) = check(graph)
    assert finding.message == "m.py: m merges q, p, b, c, but q is an ancestor of b; p is an ancestor of q"
    assert finding.hint == "Its real parents are (b, c)."


def test_orphan_merges_name_both_parents(project: Project) -> None:
    layout, _ = project("a<-b")
    for path in layout.files():
        path.unlink()
    (layout.version_locations[0] / "m.py").write_text("revision = 'm'\ndown_revision = ('x', 'y')\n")
    (finding,) = check(load(layout), lambda id_: "origin/feature" if id_ == "y" else None)
    assert finding.kind is Kind.ORPHAN_MERGE
    assert finding.message == "m.py: m merges x, y, none of which has a file"
    assert finding.hint == "y is in origin/feature: merge that ref first."


def files(**texts: str) -> Graph:
    return build((Path(f"{name}.py"), text.encode()) for name, text in texts.items())


def link(id_: str, down: object, more: str = "") -> str:
    return f"revision = {id_!r}\ndown_revision = {down!r}\n{more}"


def test_duplicate_ids_name_both_files() -> None:
    (finding,) = check(files(one=link("a", None), two=link("a", None)))
    assert finding.kind is Kind.DUPLICATE_ID
    assert finding.files == (Path("one.py"), Path("two.py"))
    assert "one.py, two.py" in finding.message


def test_a_missing_parent_may_be_an_abbreviation() -> None:
    short = check(files(a=link("abc1", None), b=link("b", "abc")))[0]
    assert (short.kind, short.hint) == (
        Kind.MISSING_PARENT,
        "Did you mean abc1? A down_revision is never abbreviated.",
    )
    graph = files(a=link("abc1", None), c=link("abc2", "abc1"), b=link("b", "abc"))
    (ambiguous,) = [finding for finding in check(graph) if finding.kind is Kind.AMBIGUOUS_PREFIX]
    assert "abc1 (a.py), abc2 (c.py)" in ambiguous.message
    (gone,) = check(files(a=link("a", "zz")), lambda _: "origin/main")
    assert (gone.message, gone.hint) == (
        "a.py: a stands on zz, which has no file",
        "It is in origin/main: merge or cherry-pick it first.",
    )


def test_ids_that_the_version_table_cannot_hold() -> None:
    assert kinds(files(a=link("a" * 32, None))) == []
    assert kinds(files(a=link("a" * 33, None))) == [Kind.ID_TOO_LONG]
    assert kinds(files(a=link("a-b", None))) == [Kind.ILLEGAL_ID]


def test_a_revises_line_that_disagrees() -> None:
    text = '"""Title\n\nRevises: {}\n"""\n'
    a, b = link("a", None), link("b", "a")
    assert kinds(files(a=text.format("") + a, b=text.format("a") + b)) == []
    assert kinds(files(a=text.format("<base>") + a, b=b)) == []
    (finding,) = check(files(a=a, b=text.format("x") + b))
    assert finding.kind is Kind.REVISES_DIFFERS
    assert finding.message == "b.py: its docstring says Revises: x, its down_revision says a"


def test_dependencies_and_labels() -> None:
    graph = files(
        a=link("a", None, "branch_labels = ('left',)\n"),
        b=link("b", None, "depends_on = ['left']\n"),
        c=link("c", "b", "depends_on = 'zz'\n"),
    )
    assert graph.ancestors(["b"]) == {"a", "b"}
    assert graph.ancestors(["b"], dependencies=False) == {"b"}
    assert graph.descendants(["a"]) == {"a", "b", "c"}
    assert graph.resolve("left").id == "a"
    assert kinds(graph) == [Kind.MISSING_DEPENDENCY, Kind.SEVERAL_HEADS, Kind.SEVERAL_BASES]
    taken = files(a=link("a", None, "branch_labels = 'x'\n"), b=link("b", "a", "branch_labels = 'x'\n"))
    assert kinds(taken) == [Kind.DUPLICATE_LABEL]


def test_a_cycle_through_depends_on() -> None:
    graph = files(a=link("a", None, "depends_on = 'b'\n"), b=link("b", "a"))
    (finding,) = check(graph)
    assert (finding.kind, finding.revisions) == (Kind.CYCLE, ("a", "b"))


def test_an_id_that_begins_another() -> None:
    graph = files(a=link("abc", None), b=link("abcd", "abc"), c=link("abce", "abcd"))
    assert kinds(graph) == []
    assert graph.resolve("abc").id == "abc"
    assert graph.resolve("abcd").id == "abcd"
    with pytest.raises(AmbiguousRevisionError, match=r"ab is ambiguous: abc \(a.py\), abcd \(b.py\), abce \(c.py\)"):
        graph.resolve("ab")
    with pytest.raises(RevisionError, match="no revision is named zz"):
        graph.resolve("zz")
    assert graph.resolve("head").id == "abce"


def test_an_empty_project_has_nothing_wrong() -> None:
    assert (Graph(()).heads, check(Graph(()))) == ((), [])


def test_order_keeps_parents_first(project: Project) -> None:
    _, graph = project("a<-b, a<-c, m<-(b,c), m<-d, d<-e")
    order = [revision.id for revision in graph.ordered()]
    assert order == ["a", "b", "c", "m", "d", "e"]


def test_the_terminal_graph(project: Project) -> None:
    _, graph = project("a<-b, a<-c, m<-(b,c), b<-e")
    assert as_text(graph).splitlines() == [
        "* m (head) (merge)  Change m.",
        "|\\",
        "| * c  Change c.",
        "| | * e (head)  Change e.",
        "* | / b (branch point)  Change b.",
        "* / a (branch point)  Change a.",
    ]


def test_the_page_draws_what_the_commands_draw() -> None:
    titles = {"a100": "Users.", "a200": "Groups.", "b100": "Ann: email.", "c100": "Bob: locale."}
    below = {"a100": (), "a200": ("a100",), "b100": ("a200",), "c100": ("a200",)}
    graph = Graph(tuple(Revision(id_, Path(id_), below[id_], docstring=title) for id_, title in titles.items()))
    page = (Path(__file__).parents[3] / "docs/lineage.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{as_mermaid(graph)}\n```" in page
    assert f"```dot\n{as_dot(graph)}\n```" in page


def test_mermaid_and_dot_escape_what_people_write() -> None:
    graph = files(a='"""Say \'hi\' to "x"\\\\n"""\n' + link("a", None), b=link("b", ("a", "gone")))
    assert "r0[\"a<br>Say 'hi' to #quot;x#quot;" in as_mermaid(graph)
    assert "    r0 --> r1" in as_mermaid(graph)
    assert 'gone (no file)"]' in as_mermaid(graph)
    assert 'label="a\\nSay \'hi\' to \\"x\\"' in as_dot(graph)
    assert "    r0 -> r1;" in as_dot(graph)
