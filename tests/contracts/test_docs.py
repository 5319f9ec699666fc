"""The documents keep up with the code."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_generated_documents_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/gen_docs.py"), "--check"], capture_output=True, text=True, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
