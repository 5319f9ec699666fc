"""`schemactl deployment preview`, `session enqueue` and `session purge`: exit codes, outputs, and what they write."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from schema.cli import run
from schema.pg.target import Target

IMAGE = "r/p/n:t"
COMPLETE = {"image": IMAGE, "architecture": "x86_64", "resource_slots": {"cpu": 1, "mem": "1g", "cuda.device": 0}}
GROUP = {"role": "main", "image": IMAGE, "architecture": "x86_64", "resource_slots": {"cpu": 1}}


class Cli:
    """Runs commands in a folder, on a database, and keeps what they print."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self.folder, self.capsys = url, folder, capsys
        self.engine = sa.create_engine(url, poolclass=sa.NullPool)
        self.output = self.messages = ""

    def __call__(self, *arguments: str) -> int:
        code = run(["--url", self.url, *arguments])
        self.output, self.messages = self.capsys.readouterr()
        assert "Traceback" not in self.messages
        return code

    def json(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        code = self("--format", "json", *arguments)
        return code, json.loads(self.output)

    def file(self, name: str, content: object) -> str:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.engine.begin() as connection:
            result = connection.execute(sa.text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []


@pytest.fixture
def cli(head_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    made = Cli(head_database, tmp_path, capsys)
    made.rows("INSERT INTO images (registry, project, name, tag, architecture) VALUES ('r', 'p', 'n', 't', 'x86_64')")
    return made


def test_preview_resolves_and_writes_nothing(cli: Cli) -> None:
    request = cli.file("request.json", COMPLETE | {"environ": {"TOKEN": "s3cret"}, "bootstrap_script": "boot"})
    definition = cli.file("d.toml", '[vllm.environ]\nA = "t0psecret"\n')
    preview = ("deployment", "preview", "--request", request, "--definition", definition, "--variant", "vllm")
    code, data = cli.json(*preview)
    assert (code, data["problems"], data["unchecked"], data["variant"]) == (0, [], [], "vllm")
    assert {row["field"]: row["source"] for row in data["values"]}["environ.A"] == "definition:vllm"
    ((image,),) = cli.rows("SELECT id FROM images")
    assert [row["image_id"] for row in data["rows"]["kernel_groups"]] == [str(image)]
    assert [(row["slot_name"], row["quantity"]) for row in data["rows"]["kernel_group_resource_slots"]] == [
        ("cpu", "1"),
        ("mem", "1073741824"),
    ]
    assert "s3cret" not in cli.output
    assert "t0psecret" not in cli.output
    assert f"Database: {Target.parse(cli.url, 'x').masked} (from --url)\n" in cli.messages
    for table in ("sessions", "kernel_groups", "kernels", "bootstrap_script_revisions"):
        assert cli.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    code, data = cli.json(*preview, "--show-values")
    assert {row["key"]: row["value"] for row in data["rows"]["kernel_group_environ"]} == {
        "TOKEN": "s3cret",
        "A": "t0psecret",
    }


def test_preview_names_what_is_unknown_beside_what_is_wrong(cli: Cli) -> None:
    request = cli.file(
        "request.json",
        {"image": "r/p/n:other", "architecture": "x86_64", "resource_slots": {"cpu": "x", "none": "y", "a\0": 1},
         "environ": {"A-B": "s3cret"}},
    )  # fmt: skip
    code, data = cli.json("deployment", "preview", "--request", request, "--variant", "nim")
    assert (code, data["ok"], data["exit_code"], data["rows"]) == (1, False, 1, None)
    assert [problem["field"] for problem in data["problems"]] == [
        "resource_slots.cpu",
        "resource_slots.none",
        "resource_slots.a\0",
        "environ.A-B",
        "image",
        "resource_slots.none",
    ]
    assert "s3cret" not in cli.output + cli.messages


@pytest.mark.parametrize("format_", ["text", "json"])
def test_preview_shows_whatever_a_document_holds(cli: Cli, format_: str) -> None:
    request = cli.file(
        "request.json",
        json.dumps(
            {"startup_command": "x\ud800", "environ": {"\ud800": "s3cret"}, "image": [{"TOKEN": "s3cret"}],
             "resource_opts": {"environ": {"TOKEN": "s3cret"}, "list": ["TOKEN=s3cret"]},
             "preopen_ports": [0],
             "architecture": ["deep"]}
        ).replace('["deep"]', "[" * 400 + "]" * 400),
    )  # fmt: skip
    definition = cli.file("d.toml", f"[resource_slots]\ncpu = 0x1{'0' * 5000}\n")
    arguments = ("deployment", "preview", "--request", request, "--definition", definition, "--variant", "vllm")
    assert cli("--format", format_, *arguments) == 1
    assert "unexpected" not in cli.messages + cli.output
    assert "s3cret" not in cli.messages + cli.output
    for shown in ("(a list)", "(a table)", "(an integer of 20001 bits)", "x\\ud800"):
        assert shown in cli.output
    if format_ == "json":
        assert len(json.loads(cli.output)["problems"]) == 8


def test_preview_without_a_database_says_what_it_did_not_check(cli: Cli, tmp_path: Path) -> None:
    request = cli.file("request.json", COMPLETE)
    code, data = cli.json("deployment", "preview", "--request", request, "--variant", "vllm", "--offline")
    assert (code, len(data["unchecked"]), data["rows"]["kernel_groups"][0]["image_id"]) == (0, 3, None)
    assert "Database" not in cli.messages


def test_preview_starts_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCHEMACTL_STATE_DIR", str(tmp_path / "state"))
    request = tmp_path / "request.json"
    request.write_text(json.dumps(COMPLETE))
    assert run(["deployment", "preview", "--request", str(request), "--variant", "vllm"]) == 0
    printed = capsys.readouterr()
    assert "Not checked, for no database was asked:" in printed.out
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("{", ("--variant", "vllm"), "is not JSON"),
        ("{}", (), "request field runtime_variant: expected one of vllm"),
        ('{"runtime_variant": "vlm"}', (), "found 'vlm'"),
    ],
)
def test_preview_of_what_is_no_request(cli: Cli, content: str, arguments: tuple[str, ...], message: str) -> None:
    request = cli.file("request.json", content)
    assert cli("deployment", "preview", "--offline", "--request", request, *arguments) == 1
    assert (message in cli.messages, cli.output) == (True, "")


def test_preview_on_a_database_that_is_not_at_head(
    empty_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(empty_database, tmp_path, capsys)
    request = cli.file("request.json", COMPLETE)
    assert cli("deployment", "preview", "--request", request, "--variant", "vllm") == 1
    assert "run `schemactl upgrade` first" in cli.messages


def test_enqueue_and_the_same_again(cli: Cli) -> None:
    id_ = "0198f3a0-0000-7000-8000-000000000001"
    spec = cli.file("spec.json", {"id": id_, "groups": [GROUP | {"replicas": 3, "environ": {"A": "s3cret"}}]})
    code, data = cli.json("session", "enqueue", "--spec", spec)
    assert (code, data["session"], data["kernels"], data["slots"], data["environ"]) == (0, id_, 3, 1, 1)
    assert cli.rows("SELECT id::text, role FROM kernel_groups") == [(data["groups"][0]["id"], "main")]
    assert cli.rows("SELECT count(*) FROM kernels WHERE kernel_group_id IS NOT NULL") == [(3,)]
    assert cli("session", "enqueue", "--spec", spec) == 1
    assert f"a session with the id {id_}" in cli.messages
    assert "s3cret" not in cli.output + cli.messages
    assert cli.rows("SELECT count(*) FROM sessions") == [(1,)]


def test_enqueue_of_a_faulty_session_touches_no_database(cli: Cli) -> None:
    spec = cli.file("spec.json", {"groups": [GROUP, GROUP, GROUP | {"environ": {"A-B": "s3cret"}}]})
    assert cli("session", "enqueue", "--spec", spec) == 1
    assert "groups.2.environ.A-B" in cli.messages
    assert "Database:" not in cli.messages
    assert "s3cret" not in cli.messages
    spec = cli.file("spec.json", {"groups": [GROUP, GROUP]})
    assert cli("session", "enqueue", "--spec", spec) == 1
    assert "expected one group per role, found more of 'main'" in cli.messages


def test_purge(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schema.cli.progress.LINE_INTERVAL_S", 0.0)
    for _ in range(3):
        assert cli("session", "enqueue", "--spec", cli.file("spec.json", {"groups": [GROUP]})) == 0
    cli.rows("UPDATE sessions SET status = 'TERMINATED', terminated_at = '2025-12-31T23:59:59Z'")
    cli.rows("UPDATE kernels SET status = 'TERMINATED'")
    cli.rows("UPDATE kernels SET status = 'RUNNING' WHERE id = (SELECT max(id::text)::uuid FROM kernels)")
    purge = ("session", "purge", "--terminated-before", "2026-01-01")
    assert cli(*purge, "--dry-run") == 0
    ((session, kernel),) = cli.rows("SELECT session_id, id FROM kernels WHERE status = 'RUNNING'")
    assert cli.output == (
        "Would remove 2 sessions with 2 kernels, 2 groups and 2 slots.\n"
        f"Kept 1:\n  session {session}: its kernel {kernel} is RUNNING\n"
    )
    assert re.search(r"^Sessions that would go: 2, .*/s$", cli.messages, re.MULTILINE)
    assert cli.rows("SELECT count(*) FROM sessions") == [(3,)]
    with cli.engine.connect() as busy:
        busy.execute(sa.text("SELECT FROM sessions FOR KEY SHARE"))
        code, data = cli.json(*purge)
        assert (code, data["exit_code"], data["sessions"]) == (4, 4, 0)
        assert {one["reason"] for one in data["blocked"]} == {"busy"}
    code, data = cli.json(*purge, "--batch", "1")
    assert (code, data["sessions"], data["kernels"], data["groups"], data["dry_run"]) == (0, 2, 2, 2, False)
    assert data["blocked"] == [
        {"session": str(session), "reason": "live kernel", "detail": f"its kernel {kernel} is RUNNING"}
    ]
    assert cli.rows("SELECT id FROM sessions") == [(session,)]


@pytest.mark.parametrize(("date", "message"), [("yesterday", "is no date"), ("2999-01-01", "is in the future")])
def test_purge_of_what_is_no_date(cli: Cli, date: str, message: str) -> None:
    assert cli("session", "purge", "--terminated-before", date) == 2
    assert message in cli.messages
