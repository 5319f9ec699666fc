"""Where the files are, as alembic.ini and pyproject.toml say; held against Alembic's own reading."""

import os
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from schema.errors import ConfigError
from schema.lineage.layout import read_layout

SETTINGS = [
    "script_location = %(here)s/m",
    "script_location = m",
    "script_location = %(here)s/m\npath_separator = os\nversion_locations = %(here)s/m/one:%(here)s/two",
    "script_location = m\npath_separator = space\nversion_locations = %(here)s/m/one %(here)s/two",
    "script_location = m\npath_separator = newline\nversion_locations =\n  %(here)s/m/one\n  %(here)s/two",
    "script_location = m\npath_separator = ;\nversion_locations = m/one;two",
    "script_location = m\npath_separator = os\nrecursive_version_locations = true",
    "script_location = package:m",
    "script_location = m\nfile_template = %%(year)d_%%(rev)s\ntruncate_slug_length = 12",
]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("m/versions/deep", "m/versions/__pycache__", "m/one", "two", "package/m/versions"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "package/__init__.py").write_text("raise RuntimeError('nothing is imported')\n")
    for number, name in enumerate(
        ["m/versions/a", "m/versions/deep/b", "m/one/c", "two/d", "package/m/versions/e", "m/versions/__init__"]
    ):
        (tmp_path / f"{name}.py").write_text(f"revision = 'r{number}'\ndown_revision = None\n")
    (tmp_path / "m/versions/.#a.py").write_text("an editor's lock")
    (tmp_path / "m/versions/notes.txt").write_text("no revision")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    return tmp_path


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_same_files_as_alembic(tree: Path, settings: str) -> None:
    (tree / "alembic.ini").write_text(f"[alembic]\n{settings}\n")
    layout = read_layout()
    if "package" in settings:
        assert [path.name for path in layout.files()] == ["e.py"]
        return
    script = ScriptDirectory.from_config(Config("alembic.ini"))
    theirs = {os.path.realpath(revision.path) for revision in script.walk_revisions()}
    assert {os.path.realpath(path) for path in layout.files()} == theirs
    assert layout.file_template == script.file_template
    assert layout.truncate_slug_length == script.truncate_slug_length


def test_pyproject_alone(tree: Path) -> None:
    (tree / "pyproject.toml").write_text(
        '[tool.alembic]\nscript_location = "%(here)s/m"\nversion_locations = ["%(here)s/m/one", "two"]\n'
    )
    assert [path.name for path in read_layout().files()] == ["c.py", "d.py"]
    assert [path.name for path in read_layout(Path("pyproject.toml")).files()] == ["c.py", "d.py"]


def test_a_file_reached_twice_counts_once(tree: Path) -> None:
    (tree / "two" / "c.py").symlink_to(tree / "m/one/c.py")
    (tree / "alembic.ini").write_text(
        "[alembic]\nscript_location = m\npath_separator = os\nversion_locations = m/one:two:m/one"
    )
    assert sorted(path.name for path in read_layout().files()) == ["c.py", "d.py"]


def test_an_ini_elsewhere(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "alembic.ini").write_text("[alembic]\nscript_location = m\n")
    monkeypatch.chdir(tree / "two")
    assert [path.name for path in read_layout(tree / "alembic.ini").files()] == ["a.py"]
    monkeypatch.setenv("ALEMBIC_CONFIG", str(tree / "alembic.ini"))
    assert [path.name for path in read_layout().files()] == ["a.py"]


@pytest.mark.parametrize(
    ("ini", "message"),
    [
        ("[alembic]\n", "says script_location"),
        ("[alembic]\nscript_location = nowhere\n", "script_location nowhere is no folder"),
        ("script_location = m\n", "cannot be read"),
        ("[alembic]\nscript_location = %(nonsense)s\n", "script_location cannot be read"),
        (
            "[alembic]\nscript_location = m\npath_separator = comma\nversion_locations = a,b\n",
            "path_separator is comma",
        ),
        ("[alembic]\nscript_location = m\ntruncate_slug_length = x\n", "truncate_slug_length is x, not a number"),
        ("[alembic]\nscript_location = nopackage:m\n", "the package nopackage is not to be found"),
    ],
)
def test_a_broken_ini_is_named(tree: Path, ini: str, message: str) -> None:
    (tree / "alembic.ini").write_text(ini)
    with pytest.raises(ConfigError, match=message):
        read_layout(tree / "alembic.ini")


def test_a_percent_sign_in_pyproject(tree: Path) -> None:
    text = '[tool.alembic]\nscript_location = "m"\nfile_template = "{}"\n'
    (tree / "pyproject.toml").write_text(text.format("%%(year)d_%%(rev)s"))
    assert read_layout().file_template == "%(year)d_%(rev)s"
    (tree / "pyproject.toml").write_text(text.format("%(year)d_%(rev)s"))
    with pytest.raises(ConfigError, match="file_template cannot be read"):
        read_layout()
