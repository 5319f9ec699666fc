"""Lanes of the revision graph."""

from itertools import pairwise

from schema.review.page.graph import MOST_WIDTH, Node, Row, draw, rows


def graph(**parents: str) -> list[Row]:
    return rows([Node(name, tuple(of.split())) for name, of in parents.items()])


def test_a_chain_has_one_lane() -> None:
    assert graph(a="", b="a", c="b") == [
        Row(0, (), (), (0,), False),
        Row(0, (), (0,), (0,), False),
        Row(0, (), (0,), (), False),
    ]


def test_an_arm_leaves_to_the_right_passes_by_and_comes_back() -> None:
    assert graph(a="", b="a", c="a", d="b c") == [
        Row(0, (), (), (0, 1), False),
        Row(0, (1,), (0,), (0,), False),
        Row(1, (0,), (1,), (1,), False),
        Row(0, (), (0, 1), (), False),
    ]


def test_a_lane_is_used_again_once_it_is_free() -> None:
    lanes = [row.lane for row in graph(a="", b="a", c="a", d="b c", e="d", f="d", g="e f")]
    assert lanes == [0, 0, 1, 0, 0, 1, 0]


def test_two_roots_and_two_heads() -> None:
    assert [(row.lane, row.through) for row in graph(a="", x="", b="a", y="x")] == [
        (0, ()),
        (1, (0,)),
        (0, (1,)),
        (1, ()),
    ]


def test_what_stands_on_something_that_is_not_shown_has_a_stub() -> None:
    first, second = graph(b="a", c="b")
    assert (first.outside, first.above, second.outside) == (True, (), False)
    width, (drawing, _) = draw([first, second])
    assert (width, drawing.x, drawing.path, drawing.stub) == (18, 9, "M9 50V100", "M9 0V50")


def test_a_parent_named_twice_is_one_line() -> None:
    assert graph(a="", b="a a")[0].below == (0,)


def test_every_line_that_leaves_a_row_arrives_in_the_next() -> None:
    arms = {f"arm{number}": "root" for number in range(40)}
    found = graph(root="", **arms, merge=" ".join(arms))
    for above, below in pairwise(found):
        assert {*above.through, *above.below} == {*below.through, *below.above}
    width, drawings = draw(found)
    assert width == MOST_WIDTH
    assert all(9 <= drawing.x <= width - 9 for drawing in drawings)


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw(rows([])) == (18, [])
