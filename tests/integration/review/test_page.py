"""`schemactl --format html review`: the page of a real review, to stdout or to a file."""

import re
from pathlib import Path

from schema.review.finding import Example
from tests.conftest import Server
from tests.support.foreign import schemactl
from tests.support.review import write

BLOCKING = Example(
    'op.execute("UPDATE app SET number = 1")\nop.create_index("ix_app_number", "app", ["number"])',
    downgrade='op.drop_index("ix_app_number")',
)


def test_it_is_written_to_a_file(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path / "project", BLOCKING)
    path = tmp_path / "review.html"
    words = ("-c", str(project.ini), "--format", "html", "review", "b1")
    done = schemactl(*words, "-o", str(path), cache=tmp_path, scratch=server.url("postgres"))
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert re.search(r"^1 revision on PostgreSQL \d+: .*\n", done.stderr, re.MULTILINE)
    assert done.stderr.endswith(f"Wrote {path}.\n")
    text = path.read_text()
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")
    assert 'data-rule="index-blocking" data-severity="error"' in text
    modes = re.findall(r'<code class="name">(.*?)</code> <span class="mode">(.*?)</span>', text)
    assert modes == [("public.app", "ROW EXCLUSIVE"), ("public.app", "SHARE")]
    assert "UPDATE app SET number = 1" in text
    assert "The downgrade works." in text


def test_it_goes_to_stdout_without_a_file(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path / "project", BLOCKING)
    words = ("-c", str(project.ini), "--format", "html", "review", "--no-reverse", "b1")
    done = schemactl(*words, cache=tmp_path, scratch=server.url("postgres"))
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("<!doctype html>")
    assert "Not taken down in this review." in done.stdout


def test_a_folder_that_is_not_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    project = write(tmp_path / "project", BLOCKING)
    path = tmp_path / "gone/review.html"
    done = schemactl("-c", str(project.ini), "review", "b1", "-o", str(path), cache=tmp_path, scratch="postgresql:///x")
    assert done.returncode == 2
    assert done.stderr == f"Error: {path} cannot be written: there is no folder {path.parent}.\n"
