"""Which lines a comment covers, what pyproject.toml may say, and the names of lock modes."""

from pathlib import Path

import pytest

from schema.errors import ConfigError
from schema.review.accept import Settings, read_acceptances, read_settings
from schema.review.facts import LockMode
from schema.review.finding import Severity

SOURCE = '''"""Title."""
# schemactl: accept revision-source -- frozen copy
import helper


def upgrade():
    # schemactl: accept object-dropped -- unused
    op.drop_column(
        "app",
        "number",
    )
    op.drop_column("app", "name")  # schemactl: accept renamed
    text = "# schemactl: accept data-work -- not a comment"
'''


def test_what_comments_cover(tmp_path: Path) -> None:
    path = tmp_path / "revision.py"
    path.write_text(SOURCE)
    found = [(each.rule, each.reason, each.first, each.last, each.whole_file) for each in read_acceptances(path)]
    assert found == [
        ("revision-source", "frozen copy", 0, 0, True),
        ("object-dropped", "unused", 8, 11, False),
        ("renamed", "", 12, 12, False),
    ]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", Settings()),
        ('[tool.schemactl.review]\nthreshold = "error"\n', Settings(Severity.ERROR)),
        ('[tool.schemactl.review]\ndisable = ["renamed"]\n', Settings(disabled=frozenset({"renamed"}))),
        ("[tool.schemactl.review]\noffline = true\n", Settings(offline=True)),
    ],
)
def test_settings(tmp_path: Path, text: str, settings: Settings) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert read_settings(tmp_path / "alembic.ini", ["renamed"]) == settings


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('threshold = "fatal"', "'fatal'"),
        ('disable = ["nothing"]', "nothing"),
        ('disable = "renamed"', "renamed"),
        ("treshold = 1", "other keys"),
        ("offline = 1", "offline of"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.schemactl.review]\n{line}\n")
    with pytest.raises(ConfigError, match=what):
        read_settings(tmp_path / "alembic.ini", ["renamed"])


def test_lock_modes_are_read_and_ranked() -> None:
    names = ["AccessShareLock", "ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "AccessExclusiveLock"]
    modes = [LockMode.of(name) for name in names]
    assert modes == sorted(modes)
    assert [mode.dangerous for mode in modes] == [False, False, True, True, True]
    assert str(modes[3]) == "SHARE ROW EXCLUSIVE"
