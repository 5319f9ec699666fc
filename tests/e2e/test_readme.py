"""Every command of the README's tour runs, in order, and ends as the README says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def tour() -> list[tuple[str, int]]:
    """Commands of the tour's bash blocks with the exit code noted behind them (`# exit 5: why`), 0 where none is."""
    section = README.partition("## Five-minute tour")[2].partition("\n## ")[0]
    lines = [line for block in re.findall(r"```bash\n(.*?)```", section, re.DOTALL) for line in block.splitlines()]
    found = []
    for line in lines:
        command, _, comment = line.partition("  # ")
        code = re.match(r"exit (\d+)", comment)
        found.append((command.strip(), int(code[1]) if code else 0))
    return [(command, code) for command, code in found if command]


def test_the_tour_runs(tmp_path: Path) -> None:
    commands = tour()
    assert len(commands) >= 8
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "SCHEMACTL_STATE_DIR": str(tmp_path / "state"),
    }
    try:
        for command, code in commands:
            done = subprocess.run(
                ["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == code, f"$ {command}\n{done.stdout}{done.stderr}"
    finally:
        subprocess.run(["schemactl", "server", "reset", "--yes"], cwd=ROOT, env=environment, capture_output=True)


def test_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document}: {link}"


@pytest.mark.parametrize("word", ["scripts/demo", "scripts/test"])
def test_the_two_commands_are_there(word: str) -> None:
    assert word in README
    assert os.access(ROOT / word, os.X_OK)
