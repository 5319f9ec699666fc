"""The story of docs/lineage.md is lived again, and the page has to tell it as it is."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_tells_the_story_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/lineage_story.py")], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("\n5 released revisions are as they were released\n```\n")
    assert done.stdout in (ROOT / "docs/lineage.md").read_text(encoding="utf-8"), "run scripts/lineage_story.py --write"
