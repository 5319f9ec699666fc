"""Rules that every revision keeps."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.script import Script

from schema.migrate.project import Project
from tests.support.history import INI, ROOT, VERSIONS

SCRIPTS = {script.revision: script for script in Project.open(INI).script.walk_revisions()}
SECTIONS = ("What", "Why", "Locks on existing tables", "Old code on the new schema", "Downgrade loses")
MERGES = {identifier for identifier, script in SCRIPTS.items() if script.is_merge_point}

each_revision = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)


def tree(script: Script) -> ast.Module:
    return ast.parse(Path(script.path).read_text())


def function(script: Script, name: str) -> ast.FunctionDef:
    return next(node for node in tree(script).body if isinstance(node, ast.FunctionDef) and node.name == name)


def statements(script: Script, name: str) -> list[ast.stmt]:
    return [node for node in function(script, name).body if not isinstance(node, ast.Pass)]


def texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def imported(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            yield from (alias.name for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            yield "." * part.level + (part.module or "")
        elif isinstance(part, ast.Name) and part.id in {"__import__", "importlib"}:
            yield part.id


def test_every_file_is_in_the_chain() -> None:
    assert {Path(script.path) for script in SCRIPTS.values()} == set(VERSIONS.glob("*.py"))
    assert len(SCRIPTS) >= 15


def test_one_head_and_one_base() -> None:
    project = Project.open(INI)
    assert len(project.heads()) == 1
    assert len(project.script.get_bases()) == 1


def test_the_one_place_where_the_history_parted() -> None:
    assert {identifier for identifier, script in SCRIPTS.items() if script.is_branch_point} == {"3b8e1d6c9a47"}
    assert SCRIPTS["3b8e1d6c9a47"].nextrev == {"51d33226c0a5", "c9e1b7a4d2f0"}
    assert {SCRIPTS[merge].down_revision for merge in MERGES} == {("51d33226c0a5", "c9e1b7a4d2f0")}


@each_revision
def test_history_is_frozen(script: Script) -> None:
    roots = {name.partition(".")[0] for name in imported(tree(script))}
    assert roots - sys.stdlib_module_names - {"sqlalchemy", "alembic"} == set()
    assert not roots & {"__import__", "importlib"}


@each_revision
def test_every_revision_has_a_test(script: Script) -> None:
    path = ROOT / f"tests/revisions/test_{script.revision}.py"
    assert path.is_file()
    source = path.read_text()
    assert "def test_" in source
    assert f'"{script.revision}"' in source


def test_every_revision_test_has_a_revision() -> None:
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests/revisions").glob("test_*.py")}
    assert files == set(SCRIPTS)


@each_revision
def test_docstring_and_file_name_agree_with_the_code(script: Script) -> None:
    text = script.module.__doc__ or ""
    down = script.down_revision
    parents = [] if down is None else [down] if isinstance(down, str) else list(down)
    revises = re.search(r"^Revises:(.*)$", text, re.MULTILINE)
    identifier = re.search(r"^Revision ID: (\w+)$", text, re.MULTILINE)
    created = re.search(r"^Create Date: (\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):", text, re.MULTILINE)
    assert revises
    assert identifier
    assert created
    assert [name.strip() for name in revises[1].split(",") if name.strip()] == parents
    assert identifier[1] == script.revision
    year, month, day, hour, minute = created.groups()
    assert Path(script.path).name.startswith(f"{year}_{month}_{day}_{hour}{minute}-{script.revision}_")
    assert re.search(r"^# Part of: \S+$", Path(script.path).read_text(), re.MULTILINE)


@each_revision
def test_docstring_answers_what_a_dba_asks(script: Script) -> None:
    text = script.module.__doc__ or ""
    found = dict(re.findall(r"^([A-Z][a-zA-Z ]+): (\S.*)$", text, re.MULTILINE))
    assert [section for section in SECTIONS if len(found.get(section, "").strip(".")) < 4] == []
    if "autocommit_block" in Path(script.path).read_text() and statements(script, "upgrade"):
        assert found.get("Run again after a failure", "").startswith("safe")


@each_revision
def test_downgrades_are_real_and_merges_empty(script: Script) -> None:
    for name in ("upgrade", "downgrade"):
        assert bool(statements(script, name)) is (script.revision not in MERGES), name


@each_revision
def test_constraints_and_indexes_are_named_in_full(script: Script) -> None:
    for node in ast.walk(tree(script)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if node.func.attr.endswith("Constraint"):
            name = keywords.get("name")
        elif node.func.attr in {"create_index", "create_foreign_key"}:
            name = node.args[0]
            if isinstance(name, ast.Constant) and node.func.attr == "create_index":
                continue
        else:
            continue
        assert isinstance(name, ast.Call), ast.unparse(node)
        assert ast.unparse(name.func) == "op.f"


@each_revision
def test_rows_are_checked_in_a_transaction_of_their_own(script: Script) -> None:
    """In SQL of its own a revision adds a CHECK or a foreign key to a table that is there."""
    for text in texts(tree(script)):
        for clause in re.findall(r"ADD CONSTRAINT \w+\s+(?:CHECK|FOREIGN KEY).*?(?=,\s*(?:ADD|DROP)\b|\Z)", text, re.S):
            assert clause.rstrip().endswith("NOT VALID"), clause


def test_there_are_such_constraints() -> None:
    found = [text for script in SCRIPTS.values() for text in texts(tree(script)) if "ADD CONSTRAINT" in text]
    assert len(found) >= 3


@each_revision
def test_timeouts_do_not_leak_into_the_next_revision(script: Script) -> None:
    for name in ("upgrade", "downgrade"):
        found = list(texts(function(script, name)))
        assert {text.split()[1] for text in found if re.match(r"SET \w+ =", text)} == {
            text.split()[1] for text in found if text.startswith("RESET ")
        }


@each_revision
def test_concurrently_never_trusts_what_is_there(script: Script) -> None:
    found = " ".join(" ".join(texts(function(script, "upgrade"))).split())
    assert "CONCURRENTLY IF NOT EXISTS" not in found
    for index in re.findall(r"CREATE INDEX CONCURRENTLY (\w+)", found):
        assert f"DROP INDEX CONCURRENTLY IF EXISTS {index}" in found


def test_a_new_revision_fails_until_it_is_written(tmp_path: Path) -> None:
    """What `alembic revision` makes keeps the form, holds the rules, and cannot pass for a revision."""
    text = (ROOT / "migrations/script.py.mako").read_text()
    assert "# Part of: NEXT_RELEASE_VERSION" in text
    assert [section for section in SECTIONS if f"\n{section}: ...\n" not in text] == []
    (tmp_path / "migrations/versions").mkdir(parents=True)
    (tmp_path / "migrations/script.py.mako").write_text(text)
    (tmp_path / "alembic.ini").write_text(INI.read_text())

    def run(*arguments: str) -> Path:
        command = [sys.executable, "-m", "alembic", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        return max((tmp_path / "migrations/versions").glob("*.py"), key=lambda path: path.stat().st_mtime_ns)

    first = run("revision", "--rev-id", "a1", "-m", "add a thing")
    assert "raise NotImplementedError" in first.read_text()
    run("revision", "--rev-id", "b1", "--head", "a1", "-m", "left")
    run("revision", "--rev-id", "b2", "--head", "a1", "--splice", "-m", "right")
    merge = run("merge", "--rev-id", "c1", "-m", "both", "heads").read_text()
    assert "NotImplementedError" not in merge
    assert merge.count("\n    pass\n") == 2
    assert "\nRevises: b1, b2\n" in merge or "\nRevises: b2, b1\n" in merge
    for path in (tmp_path / "migrations/versions").glob("*.py"):
        compile(path.read_text(), path.name, "exec")
