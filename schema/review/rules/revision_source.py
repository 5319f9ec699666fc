"""A revision that depends on more than the database."""

import ast
import sys
from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity

_ALLOWED = frozenset({"alembic", "sqlalchemy", "psycopg", "psycopg2", "asyncpg", "__future__"})
_NETWORK = frozenset({"socket", "urllib", "http", "ftplib", "smtplib", "requests", "httpx", "aiohttp"})
_PROGRAMS = frozenset({"subprocess", "pty"})
_FILES = frozenset({"open", "read_text", "read_bytes", "write_text", "write_bytes"})


def _find(context: Context) -> Iterator[Found]:
    tree = ast.parse(context.trace.revision.path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names: list[str] = []
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            top = name.partition(".")[0]
            if top in _NETWORK:
                yield Found(f"it imports {name}, which reaches the network", line=node.lineno)
            elif top in _PROGRAMS:
                yield Found(f"it imports {name}, which runs other programs", line=node.lineno)
            elif top not in _ALLOWED and top not in sys.stdlib_module_names:
                yield Found(f"it imports {name}, which changes while history does not", line=node.lineno)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "input":
                yield Found("it asks a person", line=node.lineno)
            elif called in _FILES:
                yield Found("it reads or writes files", line=node.lineno)


RULE = Rule(
    "revision-source",
    "Revision depends on more than the database",
    "The source imports application code, or reads the network, files or standard input.",
    "History rots: the same revision does something else, or fails, when that code or file has changed.",
    """\
app = sa.table("app", sa.column("id"), sa.column("number"))  # a copy of what it needs, frozen with the revision
op.execute(app.update().where(app.c.id == 1).values(number=0))""",
    Severity.WARNING,
    _find,
    bad=Example('open("/dev/null").close()'),
    good=Example('op.execute("SELECT 1")'),
)
