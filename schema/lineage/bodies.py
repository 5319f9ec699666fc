"""What a revision does: hashes of its link and bodies, and the tables that it seems to touch."""

import ast
import hashlib
import re
from pathlib import Path

from schema.lineage.source import NAMES
from schema.lineage.syntax import link_values, parse_module

PARTS = ("link", "upgrade", "downgrade")
"""What is hashed of a revision."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def digests(data: bytes, path: Path) -> dict[str, str]:
    """SHA-256 of a revision's link, upgrade and downgrade, blind to comments, layout and docstrings.

    A body counts with everything of its module that it uses. The same on every supported Python: the tree is
    written out without the fields that differ between versions.
    """
    module = parse_module(data, path)
    link = link_values(module, path)
    defined: dict[str, list[ast.stmt]] = {}
    for statement in module.body:
        for name in _definitions(statement):
            defined.setdefault(name, []).append(statement)
    texts = {"link": repr([(name, link.get(name)) for name in NAMES])}
    for name in PARTS[1:]:
        used = _used(name, defined)
        texts[name] = "\n".join(_written(statement) for statement in module.body if statement in used)
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def _definitions(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
    return [
        node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    ]


def _used(name: str, defined: dict[str, list[ast.stmt]]) -> set[ast.stmt]:
    used: set[ast.stmt] = set()
    waiting = [name]
    while waiting:
        for statement in defined.get(waiting.pop(), ()):
            if statement not in used:
                used.add(statement)
                waiting += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return used


_UNSTABLE_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_params", "returns", "annotation"})


def _written(node: object) -> str:
    if isinstance(node, ast.AST):
        fields = []
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(node, _FUNCTIONS) and isinstance(value, list):
                value = _without_docstring(value)  # noqa: PLW2901 - one rewritten field
            if name == "values" and isinstance(node, ast.JoinedStr):
                value = _joined(value)  # noqa: PLW2901
            if name not in _UNSTABLE_FIELDS and value is not None and value != []:
                fields.append(f"{name}={_written(value)}")
        return f"{type(node).__name__}({', '.join(fields)})"
    if isinstance(node, list):
        return f"[{', '.join(_written(element) for element in node)}]"
    return repr(node)


def _joined(values: list[ast.expr]) -> list[object]:
    """An f-string's parts, its texts in one piece: Python 3.12 cuts them up, with empty ones between."""
    parts: list[object] = []
    for value in values:
        text = value.value if isinstance(value, ast.Constant) else None
        if not isinstance(text, str):
            parts.append(value)
        elif parts and isinstance(parts[-1], str):
            parts[-1] += text
        elif text:
            parts.append(text)
    return parts


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_docstring = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring and len(body) > 1 else body


_TABLE_ARGUMENTS = {
    "create_table": 0,
    "drop_table": 0,
    "rename_table": 0,
    "create_table_comment": 0,
    "drop_table_comment": 0,
    "add_column": 0,
    "drop_column": 0,
    "alter_column": 0,
    "batch_alter_table": 0,
    "create_index": 1,
    "drop_index": 1,
    "create_foreign_key": 1,
    "create_check_constraint": 1,
    "create_exclude_constraint": 1,
    "create_primary_key": 1,
    "create_unique_constraint": 1,
    "drop_constraint": 1,
}
_TABLE_KEYWORDS = ("table_name", "source_table", "old_table_name")
_SQL_TABLE = re.compile(
    r"""\b(?:TABLE|UPDATE|INSERT\s+INTO|DELETE\s+FROM|INDEX\b[^;]*?\bON|TRIGGER\b[^;]*?\bON)\s+
    (?:CONCURRENTLY\s+)?(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:ONLY\s+)?(?:"?\w+"?\.)?"?(\w+)"?""",
    re.IGNORECASE | re.VERBOSE,
)


def touched_tables(data: bytes, path: Path) -> set[str]:
    """Tables that `op` calls and SQL literals of the upgrade seem to change; names built at run time are not seen.

    Raises:
        UnreadableError: see `parse_module`.
    """
    tables: set[str] = set()
    for function in parse_module(data, path).body:
        if isinstance(function, ast.FunctionDef) and function.name == "downgrade":
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                tables |= _tables_of_call(node, node.func.attr)
    return tables


def _is_op(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "op"


def _tables_of_call(call: ast.Call, method: str) -> set[str]:
    # Batch operations have the same names without the table, which `batch_alter_table` has named.
    if method in _TABLE_ARGUMENTS and isinstance(call.func, ast.Attribute) and _is_op(call.func.value):
        place = _TABLE_ARGUMENTS[method]
        named = [keyword.value for keyword in call.keywords if keyword.arg in _TABLE_KEYWORDS]
        nodes = named or call.args[place : place + 1]
        return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    if method != "execute":
        return set()
    texts = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {table for text in texts for table in _SQL_TABLE.findall(text)}
