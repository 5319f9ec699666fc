"""The history as rows of lanes, one row per revision, parents above children."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

PITCH = 18
"""Pixels from one lane to the next."""
MOST_WIDTH = 126
"""Pixels; where there are more lanes they move closer together."""


@dataclass(frozen=True)
class Node:
    """A revision, and the revisions that it stands on."""

    id: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """What is drawn beside one revision; lanes count from 0 at the left."""

    lane: int
    through: tuple[int, ...]
    """Lanes that pass by."""
    above: tuple[int, ...]
    """Lanes that come from parents and end here."""
    below: tuple[int, ...]
    """Lanes that lead to children."""
    outside: bool
    """It stands on a revision that is not shown."""


@dataclass(frozen=True)
class Drawing:
    """A row in pixels across and percent down: its height is whatever the text beside it needs."""

    x: float
    path: str
    stub: str
    """Path to what it stands on outside of the graph; empty when there is none."""


def rows(nodes: Sequence[Node]) -> list[Row]:
    """Lanes for each revision. Nodes come parents first; parents that are no nodes are outside."""
    known = {node.id for node in nodes}
    children: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for parent in dict.fromkeys(node.parents):
            if parent in known:
                children[parent].append(node.id)
    # Each lane holds the child that it leads to; None is free.
    lanes: list[str | None] = []
    found = []
    for node in nodes:
        above = tuple(number for number, child in enumerate(lanes) if child == node.id)
        lane = above[0] if above else _free(lanes)
        for number in above:
            lanes[number] = None
        below: list[int] = []
        for child in children[node.id]:
            number = _free(lanes) if below else lane
            lanes[number] = child
            below.append(number)
        through = tuple(number for number, child in enumerate(lanes) if child is not None and number not in below)
        found.append(Row(lane, through, above, tuple(below), any(each not in known for each in node.parents)))
    return found


def _free(lanes: list[str | None]) -> int:
    for number, child in enumerate(lanes):
        if child is None:
            return number
    lanes.append(None)
    return len(lanes) - 1


def draw(graph: Sequence[Row]) -> tuple[int, list[Drawing]]:
    """Width of the graph in pixels, and its rows."""
    lanes = 1 + max((max((row.lane, *row.through, *row.above, *row.below)) for row in graph), default=0)
    width = min(PITCH * lanes, MOST_WIDTH)
    # The outermost lanes keep half a pitch of room for their nodes.
    pitch = (width - PITCH) / max(lanes - 1, 1)

    def x(lane: int) -> float:
        return round(PITCH / 2 + lane * pitch, 1)

    return width, [
        Drawing(x(row.lane), " ".join(_lines(row, x)), f"M{x(row.lane):g} 0V50" if row.outside else "") for row in graph
    ]


def _lines(row: Row, x: Callable[[int], float]) -> Iterator[str]:
    here = x(row.lane)
    for lane in row.through:
        yield f"M{x(lane):g} 0V100"
    for lane in row.above:
        yield f"M{here:g} 0V50" if lane == row.lane else f"M{x(lane):g} 0C{x(lane):g} 35 {here:g} 15 {here:g} 50"
    for lane in row.below:
        yield f"M{here:g} 50V100" if lane == row.lane else f"M{here:g} 50C{here:g} 85 {x(lane):g} 65 {x(lane):g} 100"
