#!/usr/bin/env python
"""Tell the worked story of docs/lineage.md by living it: a real git repository, real commands, their real output.

`scripts/lineage_story.py` prints it; `--write` puts it into docs/lineage.md, where a test holds it to this script.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "lineage.md"
BEGIN, END = "<!-- story: written by scripts/lineage_story.py -->\n", "<!-- end of story -->\n"

ENV = """import sqlalchemy as sa

from schema.migrate.settings import run_environment

run_environment(sa.MetaData())
"""

TEMPLATE = '''"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from alembic import op

# Part of: NEXT_RELEASE_VERSION
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade():
    ${upgrades if upgrades else "pass"}


def downgrade():
    ${downgrades if downgrades else "pass"}
'''


class Story:
    """One project, and the text so far."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.text: list[str] = []
        self.versions = root / "migrations" / "versions"
        self.versions.mkdir(parents=True)
        (root / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s/migrations\npath_separator = os\n")
        (root / "migrations" / "env.py").write_text(ENV)
        (root / "migrations" / "script.py.mako").write_text(TEMPLATE)
        self.git("init", "-q", "-b", "main")

    def say(self, paragraph: str) -> None:
        """Add a paragraph."""
        self.text.append(paragraph)

    def git(self, *arguments: str) -> None:
        """Run git, unseen."""
        identity = ["-c", "user.name=Story", "-c", "user.email=story@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True)

    def save(self, tag: str = "") -> None:
        """Commit everything, and tag it."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "save")
        if tag:
            self.git("tag", tag)

    def write(self, id_: str, parent: str | None, title: str, sql: str) -> None:
        """Write a revision file."""
        text = TEMPLATE
        for name, value in {
            "${message}": title,
            "${up_revision}": id_,
            "${down_revision | comma,n}": parent or "",
            "${repr(up_revision)}": repr(id_),
            "${repr(down_revision)}": repr(parent),
            '${upgrades if upgrades else "pass"}': f'op.execute("{sql}")',
            '${downgrades if downgrades else "pass"}': "pass",
        }.items():
            text = text.replace(name, value)
        (self.versions / f"{id_}.py").write_text(text)

    def run(self, command: str, expected: int = 0) -> None:
        """Run a command of schemactl and show it with its output and, when it is not 0, its exit code."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SCHEMACTL_", "GIT_"))}
        done = subprocess.run(
            [sys.executable, "-m", "schema", *command.split()],
            cwd=self.root,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**environment, "PYTHONPATH": str(ROOT)},
        )
        if done.returncode != expected:
            raise SystemExit(f"schemactl {command} ended {done.returncode}, not {expected}:\n{done.stdout}")
        output = done.stdout.replace(f"{self.root.resolve()}/", "").rstrip()
        ending = f"\n# exit code {done.returncode}" if done.returncode else ""
        self.text.append(f"```console\n$ schemactl {command}\n{output}{ending}\n```")


def tell() -> str:
    """Live the story in a temporary folder and return it as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder).resolve())
        chapters(story)
        return "\n\n".join(story.text) + "\n"


def chapters(story: Story) -> None:
    """The story."""
    story.write("a100", None, "Users.", "CREATE TABLE users (id int)")
    story.write("a200", "a100", "Groups.", "CREATE TABLE groups (id int)")
    story.say("Release 1.0 has two revisions. Their `# Part of:` lines are frozen, and the release is tagged:")
    story.run("-q lineage freeze 1.0")
    story.save("v1.0")
    story.run("lineage dump --ref v1.0 -o lineage-1.0.json")

    story.say("Then Ann adds a revision on top, and Bob another. Both branches are green, and both land:")
    story.write("b100", "a200", "Ann: email.", "ALTER TABLE users ADD COLUMN email text")
    story.write("c100", "a200", "Bob: locale.", "ALTER TABLE users ADD COLUMN locale text")
    story.save()
    story.run("heads", expected=3)

    story.say("Both may be on somebody's database already, so the heads are merged; nothing moves, nothing is skipped:")
    story.run("merge -m joined --rev-id d100")
    story.save("v1.1")

    story.say("1.1 is released. Then Cleo's branch lands late. It stands on Ann's revision, from before the merge:")
    story.write("e100", "b100", "Cleo: quota.", "ALTER TABLE groups ADD COLUMN quota int")
    story.write("e200", "e100", "Cleo: usage.", "ALTER TABLE groups ADD COLUMN usage int")
    story.run("lineage show")
    story.run("heads", expected=3)

    story.say("The merge is released and cannot move onto Cleo's arm:")
    story.run("-q rebase d100 --onto e200", expected=3)

    story.say(
        "Cleo's arm is in no release and on no database that is named, so it moves, by one line of its first file:"
    )
    story.run("rebase e200 --onto d100")
    story.run("-q rebase e200 --onto d100 --apply")
    story.save()
    story.run("heads --check")

    story.say(
        "A fix is needed in 1.0 too. It is written once, at the head and idempotent, then backported. Databases of "
        "both releases and an empty one are brought to the head on a scratch server first, and must end alike:"
    )
    story.write("f100", "e200", "Index users.id.", "CREATE INDEX IF NOT EXISTS ix_users_id ON users (id)")
    story.run("-q lineage backport f100 --at v1.0 --rev-id f099 --apply")
    story.run("lineage show")

    story.say(
        "A database at 1.0 runs f099. One at 1.1 takes it as applied and runs f100 instead. "
        "No release skips anything, and there is one head:"
    )
    story.run("lineage skipped")
    story.run("heads --check")

    story.say("The backport relinked revisions of 1.1. That is an edit of a release, so the ledger wants the reason:")
    story.run("lineage integrity", expected=3)
    story.run("lineage integrity --accept b100 --accept c100 --reason backport-of-f100")


def main() -> int:
    """Print the story, or write it into the page."""
    text = tell()
    if "--write" not in sys.argv[1:]:
        print(text, end="")
        return 0
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
