"""What the lock file may and may not bring in."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))


def test_no_other_project_named_schema() -> None:
    assert "click" in PINS
    assert "schema" not in PINS


def test_every_pin_has_a_hash_and_no_address() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text


def test_every_direct_dependency_is_pinned_and_justified() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    names = [re.split(r"[\[>=<]", entry)[0] for entry in wanted]
    assert [name for name in names if name not in PINS] == []
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert [name for name in names if f"| `{name}` |" not in contributing] == []
