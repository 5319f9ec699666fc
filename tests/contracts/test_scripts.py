"""The scripts of the checkout: one at a time makes .venv, whatever the shell around them says."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in a folder with a blank, with an interpreter in place of pip: it installs in half a second."""
    root = tmp_path / "a checkout"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/_venv.sh", root / "scripts")
    (root / "scripts/schemactl").write_text("1")
    (root / "requirements.lock").write_text("1")
    (root / "pyproject.toml").write_text("1")
    (root / "scripts/work").write_text('source "$(dirname "$0")/_venv.sh"\necho "$PWD" "$(command -v python)" done\n')
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
case "$*" in
-m\\ venv*) echo "$PYTHONPATH" made >> "{root}/made"; mkdir -p .venv/bin; cp "$0" .venv/bin/python; sleep 0.5 ;;
-m\\ pip*) ;;
*) exec "{sys.executable}" "$@" ;;
esac
""")
    python.chmod(0o755)
    return root


def start(checkout: Path, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["bash", str(checkout / "scripts/work")],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHON": str(checkout.parent / "python"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_at_once_make_it_once(checkout: Path) -> None:
    first = start(checkout, PYTHONPATH="/elsewhere")
    deadline = time.monotonic() + 10
    while not (checkout / "made").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = start(checkout)
    outputs = [process.communicate(timeout=20) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], outputs
    assert [out for out, _ in outputs] == [f"{checkout} {checkout}/.venv/bin/python done\n"] * 2
    assert "Making .venv" in outputs[0][1]
    assert outputs[1][1] == "Another command is making .venv; waiting for it ...\n"
    # Without the shell's PYTHONPATH: pip would take what is there for installed.
    assert (checkout / "made").read_text() == " made\n"


def test_half_a_venv_is_made_anew_and_a_whole_one_is_kept(checkout: Path) -> None:
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/leftover").touch()
    for _ in range(2):
        process = start(checkout)
        process.communicate(timeout=20)
        assert process.returncode == 0
    assert (checkout / "made").read_text() == " made\n"
    assert not (checkout / ".venv/bin/leftover").exists()


def test_an_activated_venv_does_not_make_its_own_successor(checkout: Path) -> None:
    start(checkout).communicate(timeout=20)
    (checkout / "requirements.lock").write_text("2")
    own = checkout / ".venv/bin"
    (own / "python3").symlink_to(own / "python")
    # The system's python3 is too old; another one isn't.
    (checkout.parent / "python3").write_text("#!/bin/sh\nexit 1\n")
    (checkout.parent / "python3").chmod(0o755)
    shutil.copy(checkout.parent / "python", checkout.parent / "python3.14")
    process = start(checkout, PYTHON="", PATH=f"{own}:{checkout.parent}:{os.environ['PATH']}")
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert (checkout / "made").read_text() == " made\n made\n"
