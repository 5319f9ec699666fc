"""The syntax tree of a revision file, and the link that it says."""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from schema.lineage.source import NAMES, UnreadableError

Value = str | tuple[str, ...] | None


def decode(data: bytes, path: Path) -> tuple[str, str]:
    """Text and encoding of a Python source; line ends are kept, a byte order mark is not part of the text.

    Raises:
        UnreadableError: naming the byte, when the bytes are not of the encoding that the file declares.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        if "encoding declaration" not in str(error):
            raise UnreadableError(f"{path} cannot be decoded: {error}") from error
        # Without a declaration this is what the standard library says of a first line that is no UTF-8.
        encoding = "utf-8"
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"{path} is not {error.encoding}: byte 0x{data[error.start]:02x} at offset {error.start}",
            hint="Save it as UTF-8, or declare its encoding in the first line: # -*- coding: latin-1 -*-",
        ) from error


def parse_module(data: bytes, path: Path) -> ast.Module:
    """Parse a Python source.

    Raises:
        UnreadableError: naming the line.
    """
    text, _ = decode(data, path)
    import warnings

    try:
        with warnings.catch_warnings():
            # An invalid escape in someone's revision is a warning of theirs, not of this run.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise UnreadableError(f"{path}, line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"{path} cannot be parsed: {error}") from error


def docstring(module: ast.Module) -> str:
    """The module's docstring as written, or the empty string."""
    return ast.get_docstring(module, clean=False) or ""


def link_values(module: ast.Module, path: Path) -> dict[str, Value]:
    """The link's variables and their literal values.

    Raises:
        UnreadableError: a value is computed, or bound where only running the file would tell.
    """
    return {name: _literal(node, name, path) for name, node in link_nodes(module, path).items()}


def link_nodes(module: ast.Module, path: Path) -> dict[str, ast.expr]:
    """Where the link's variables get their last values.

    Raises:
        UnreadableError: one is bound where only running the file would tell.
    """
    nodes: dict[str, ast.expr] = {}
    for statement in module.body:
        bound, value = _simple_binding(statement)
        if bound and value is not None:
            nodes.update(dict.fromkeys(bound, value))
        for name in _bound_names(statement):
            if name not in bound:
                raise UnreadableError(
                    f"{path}, line {statement.lineno}: {name} is not a plain assignment at the top of the module",
                    hint="Write it as `name = 'value'`, so that it can be read without running the file.",
                )
    return nodes


def _simple_binding(statement: ast.stmt) -> tuple[tuple[str, ...], ast.expr | None]:
    targets: list[ast.expr]
    value: ast.expr | None
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign):
        targets, value = [statement.target], statement.value
    else:
        return (), None
    return tuple(target.id for target in targets if isinstance(target, ast.Name) and target.id in NAMES), value


def _bound_names(statement: ast.AST) -> Iterator[str]:
    """Link names that a statement binds in the module's scope, in whatever way."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if statement.name in NAMES:
            yield statement.name
        return
    if isinstance(statement, ast.Lambda):
        return
    if isinstance(statement, ast.Name) and not isinstance(statement.ctx, ast.Load) and statement.id in NAMES:
        yield statement.id
    if isinstance(statement, ast.alias) and (statement.asname or statement.name) in NAMES:
        yield statement.asname or statement.name
    for child in ast.iter_child_nodes(statement):
        yield from _bound_names(child)


def _literal(node: ast.expr, name: str, path: Path) -> Value:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_text(element, name, path) for element in node.elts)
    return _text(node, name, path)


def _text(node: ast.expr, name: str, path: Path) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, name, path) + _text(node.right, name, path)
    raise UnreadableError(
        f"{path}, line {node.lineno}: {name} is computed, not written out",
        hint="Write a string, None, or a tuple of strings.",
    )
