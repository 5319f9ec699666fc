"""`schemactl review` as a person runs it: exit codes, formats, suppression, sizes."""

import json
from pathlib import Path

import psycopg
import pytest

from schema.review.finding import Example
from tests.conftest import Server
from tests.support.drift import plain
from tests.support.foreign import ASYNC, schemactl, write_project
from tests.support.majors import embedded_only
from tests.support.review import write

BLOCKING = Example('op.create_index("ix_app_number", "app", ["number"])', downgrade='op.drop_index("ix_app_number")')
CLEAN = Example(
    'op.create_table("fresh", sa.Column("id", sa.BigInteger, primary_key=True))\n'
    'op.create_index("ix_fresh", "fresh", ["id"])',
    downgrade='op.drop_table("fresh")',
)


@embedded_only
def test_findings_end_with_3_at_file_and_line(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path / "project", CLEAN, BLOCKING)
    done = schemactl(
        "-c", str(project.ini), "--format", "json", "review", "b2", cache=tmp_path, scratch=server.url("postgres")
    )
    data = json.loads(done.stdout)
    assert (done.returncode, data["command"], data["exit_code"]) == (3, "review run", 3), done.stderr
    (revision,) = data["revisions"]
    finding = next(each for each in revision["findings"] if each["rule"] == "index-blocking")
    source = Path(finding["file"]).read_text().splitlines()
    assert "create_index" in source[finding["line"] - 1]
    assert finding["relation"] == "public.app"
    assert revision["locks"][0]["relation"] == "public.app"
    assert revision["locks"][0]["mode"] == "SHARE"
    assert revision["reversible"] is True


@embedded_only
def test_a_new_table_and_its_index_are_clean(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path / "project", CLEAN)
    done = schemactl("-c", str(project.ini), "review", "--latest", "1", cache=tmp_path, scratch=server.url("postgres"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Revision b1: CLEAN" in done.stdout or "Revision b1: NOTES" in done.stdout


@embedded_only
def test_annotations_and_markdown(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path / "project", BLOCKING)
    words = ("-c", str(project.ini), "--format")
    github = schemactl(*words, "github", "review", "b1", cache=tmp_path, scratch=server.url("postgres"))
    assert github.returncode == 3
    assert f"::error file={tmp_path / 'project'}".replace(str(tmp_path) + "/", "") in github.stdout
    assert "title=index-blocking%3A Index built without CONCURRENTLY" in github.stdout
    markdown = schemactl(*words, "markdown", "review", "b1", cache=tmp_path, scratch=server.url("postgres")).stdout
    assert markdown.startswith("# Review of revisions\n\n1 revision on PostgreSQL ")
    assert "SHARE on `public.app`" in markdown
    assert "postgresql_concurrently=True" in markdown


@embedded_only
@pytest.mark.parametrize(
    ("comment", "code", "rules"),
    [
        ("# schemactl: accept index-blocking -- the table is tiny", 0, []),
        ("# schemactl: accept index-blocking", 3, ["index-blocking", "unused-acceptance"]),
        ("# schemactl: accept column-rewrite -- old", 3, ["index-blocking", "unused-acceptance"]),
    ],
)
def test_suppression(server: Server, tmp_path: Path, comment: str, code: int, rules: list[str]) -> None:
    project = write(tmp_path / "project", Example(f"{comment}\n{BLOCKING.upgrade}", downgrade=BLOCKING.downgrade))
    done = schemactl(
        "-c", str(project.ini), "--format", "json", "review", "b1", cache=tmp_path, scratch=server.url("postgres")
    )
    (revision,) = json.loads(done.stdout)["revisions"]
    serious = sorted(each["rule"] for each in revision["findings"] if each["severity"] != "note")
    assert (done.returncode, serious) == (code, rules), done.stderr
    assert [each["reason"] for each in revision["accepted"]] == (["the table is tiny"] if code == 0 else [])


@embedded_only
def test_small_tables_are_notes_and_the_threshold_is_the_projects(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path / "project", BLOCKING)
    sizes = tmp_path / "sizes.json"
    sizes.write_text(json.dumps({"tables_v1": {"public.app": {"rows": 40, "bytes": 8192}}}))
    words = ("-c", str(project.ini), "--format", "json", "review", "b1")
    small = schemactl(*words, "--stats", str(sizes), cache=tmp_path, scratch=server.url("postgres"))
    severities = {each["rule"]: each["severity"] for each in json.loads(small.stdout)["revisions"][0]["findings"]}
    assert (small.returncode, severities["index-blocking"]) == (0, "note")
    sizes.write_text(json.dumps({"tables_v1": {"public.app": {"rows": 400_000_000, "bytes": 40 * 1024**3}}}))
    large = schemactl(*words, "--stats", str(sizes), cache=tmp_path, scratch=server.url("postgres"))
    (revision,) = json.loads(large.stdout)["revisions"]
    assert large.returncode == 3
    assert revision["locks"][0]["estimated_seconds"] >= 400_000_000 / 5_000_000
    (tmp_path / "project/pyproject.toml").write_text('[tool.schemactl.review]\ndisable = ["index-blocking"]\n')
    disabled = schemactl(*words, cache=tmp_path, scratch=server.url("postgres"))
    assert disabled.returncode == 0, disabled.stdout
    (tmp_path / "project/pyproject.toml").write_text('[tool.schemactl.review]\ndisable = ["no-such-rule"]\n')
    unknown = schemactl(*words, cache=tmp_path, scratch=server.url("postgres"))
    assert (unknown.returncode, "no-such-rule" in unknown.stderr) == (2, True)


def test_stats_of_a_database_are_read_back(server: Server, empty_database: str, tmp_path: Path) -> None:
    with psycopg.connect(plain(empty_database), autocommit=True) as connection:
        connection.execute("CREATE TABLE app AS SELECT generate_series(1, 1000) AS id")
        connection.execute("ANALYZE app")
    project = write(tmp_path / "project", BLOCKING)
    words = ("-c", str(project.ini), "--url", empty_database)
    output = tmp_path / "sizes.json"
    done = schemactl(*words, "review", "stats", "-o", str(output), cache=tmp_path, scratch=server.url("postgres"))
    assert done.returncode == 0, done.stderr
    assert json.loads(output.read_text())["tables_v1"]["public.app"]["rows"] == 1000
    broken = tmp_path / "broken.json"
    broken.write_text("[]")
    refused = schemactl(*words, "review", "b1", "--stats", str(broken), cache=tmp_path, scratch=server.url("postgres"))
    assert (refused.returncode, "broken.json holds no sizes" in refused.stderr) == (2, True)


@embedded_only
@pytest.mark.parametrize(
    ("body", "why", "code"),
    [
        ('raise RuntimeError("no way")', "RuntimeError: no way", 1),
        ("import sys; sys.exit(7)", "sys.exit(7)", 1),
        # Its source is a finding as well.
        ("input()", "standard input", 3),
        ('op.execute("SELECT pg_terminate_backend(pg_backend_pid())")', "terminating connection", 1),
    ],
)
def test_what_cannot_be_reviewed_is_said(server: Server, tmp_path: Path, body: str, why: str, code: int) -> None:
    project = write(tmp_path / "project", CLEAN, Example(body))
    done = schemactl("-c", str(project.ini), "review", "a0:b2", cache=tmp_path, scratch=server.url("postgres"))
    assert done.returncode == code, done.stdout + done.stderr
    assert "Could not review b2" in done.stdout
    assert why in done.stdout
    assert "Revision b1: " in done.stdout


@embedded_only
def test_an_async_project(server: Server, tmp_path: Path) -> None:
    ini = write_project(tmp_path / "project", env=ASYNC)
    done = schemactl("-c", str(ini), "--format", "json", "review", cache=tmp_path, scratch=server.url("postgres"))
    assert done.returncode in {0, 3}, done.stdout + done.stderr
    (revision,) = json.loads(done.stdout)["revisions"]
    texts = [each["text"] for each in revision["statements"]]
    assert any(text.startswith("CREATE TABLE customer") for text in texts)
    assert any(text.startswith("CREATE SCHEMA") for text in texts)
    assert "table public.customer" in [item for each in revision["statements"] for item in each["changed"]]
