"""Changing the link of a revision file and nothing else: every other byte stays."""

import ast
import re
from pathlib import Path

from schema.lineage.source import REVISES, UnreadableError
from schema.lineage.syntax import decode, link_nodes, parse_module

_REVISION_ID = re.compile(r"^([ \t]*Revision ID:[ \t]*)(.*?)[ \t]*\r?$", re.MULTILINE)


def relinked(data: bytes, path: Path, parents: tuple[str, ...]) -> bytes:
    """The file with another `down_revision` and `Revises:` line.

    Raises:
        UnreadableError: there is no such assignment, or the text does not survive its own encoding.
    """
    return _changed(data, path, "down_revision", parents, REVISES)


def renamed(data: bytes, path: Path, identity: str) -> bytes:
    """The file with another `revision` and `Revision ID:` line.

    Raises:
        UnreadableError: see `relinked`.
    """
    return _changed(data, path, "revision", (identity,), _REVISION_ID)


def _changed(data: bytes, path: Path, variable: str, ids: tuple[str, ...], line: re.Pattern[str]) -> bytes:
    text, encoding = decode(data, path)
    if text.encode(encoding) != data:
        raise UnreadableError(f"{path} does not encode back to the same bytes as {encoding}")
    module = parse_module(data, path)
    nodes = link_nodes(module, path)
    if variable not in nodes:
        raise UnreadableError(f"{path} has no {variable} to change")
    starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]
    begin, end = _span(text, starts, nodes[variable])
    edits = [(begin, end, _value(ids, _quote(text, starts, nodes, variable)))]
    first = module.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        found = line.search(text, *_span(text, starts, first))
        if found:
            label = found[1] if found[1][-1] in " \t" else f"{found[1]} "
            edits.append((found.start(), found.end(2), label + ", ".join(ids)))
    for begin, end, value in sorted(edits, reverse=True):
        text = text[:begin] + value + text[end:]
    return text.encode(encoding)


def _value(ids: tuple[str, ...], quote: str) -> str:
    written = [f"{quote}{id_}{quote}" for id_ in ids]
    return written[0] if len(written) == 1 else f"({', '.join(written)})"


def _quote(text: str, starts: list[int], nodes: dict[str, ast.expr], variable: str) -> str:
    """The quotes that the file uses: those of the value itself, else of its revision id."""
    for name in (variable, "revision"):
        if name in nodes:
            begin, end = _span(text, starts, nodes[name])
            for character in text[begin:end]:
                if character in "\"'":
                    return character
    return '"'


def _span(text: str, starts: list[int], node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node stands in `text`; the tree counts UTF-8 bytes within a line."""

    def position(line: int, column: int) -> int:
        start = starts[line - 1]
        stop = starts[line] if line < len(starts) else len(text)
        return start + len(text[start:stop].encode("utf-8")[:column].decode("utf-8"))

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return position(node.lineno, node.col_offset), position(node.end_lineno, node.end_col_offset)
