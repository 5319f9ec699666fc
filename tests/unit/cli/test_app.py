"""The root command: start-up, help, global options and how errors end."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from schema.cli.app import COMMANDS, cli, run
from schema.cli.context import App, Format, Result, pass_app
from schema.cli.lazy import LazyGroup
from schema.errors import ExitCode, ReadOnlyError


def every_group(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], LazyGroup]]:
    yield path, group
    for name in group.lazy:
        command = group.get_command(click.Context(group), name)
        if isinstance(command, LazyGroup):
            yield from every_group(command, (*path, name))


def test_the_tables_of_commands_agree_with_the_commands() -> None:
    for path, group in every_group(cli):
        for name, entry in group.lazy.items():
            command = group.get_command(click.Context(group), name)
            assert command is not None
            assert command.name == name, path
            assert command.get_short_help_str(limit=200) == entry.short_help, (*path, name)


def test_the_tables_of_commands_say_which_formats_there_are() -> None:
    """Each command's file makes a Result with the formats that its line in the table says, and no other."""
    for path, group in every_group(cli):
        for name, entry in group.lazy.items():
            if isinstance(group.get_command(click.Context(group), name), LazyGroup):
                assert entry.more_formats == (), (*path, name)
                continue
            source = Path(importlib.import_module(entry.module).__file__ or "").read_text()
            made = {kind for kind in set(Format) - {Format.TEXT, Format.JSON} if f" {kind}=" in source}
            assert made == set(entry.more_formats), (*path, name)


def test_a_format_that_a_command_lacks_is_refused_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    versions = tmp_path / "migrations/versions"
    versions.mkdir(parents=True)
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = migrations\n")
    for id_, parent in (("a", None), ("b", "a"), ("c", "a")):
        (versions / f"{id_}.py").write_text(
            f"# Part of: NEXT_RELEASE_VERSION\nrevision = {id_!r}\ndown_revision = {parent!r}\n"
        )
    before = {path.name: path.read_bytes() for path in versions.iterdir()}
    for command in (["merge"], ["rebase", "b", "--onto", "c", "--apply"], ["lineage", "freeze", "1.0"]):
        for kind in ("github", "markdown", "html"):
            assert run(["--format", kind, *command]) == ExitCode.USAGE
            assert f"has no {kind} output. Use --format text or json." in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in versions.iterdir()} == before
    assert run(["--format", "github", "heads"]) == ExitCode.FINDINGS


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "schema.cli", "--help"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "click" in imported
    heavy = {"sqlalchemy", "alembic", "psycopg", "rich", "pydantic", *(entry.module for entry in COMMANDS.values())}
    assert imported & heavy == set()
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("arguments", [["nonsense"], ["--format", "xml", "status"], ["--nonsense"], ["-c"]])
def test_usage_errors_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == ExitCode.USAGE
    assert "Error: " in capsys.readouterr().err


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @click.argument("how")
    @click.option("-o", "--output", type=click.Path(path_type=Path))
    @pass_app
    def command(app: App, how: str, output: Path | None) -> None:
        if how == "refuse":
            raise ReadOnlyError("the server takes no writes")
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "crash":
            raise ZeroDivisionError("by zero")
        app.finish(Result(data={"answer": 42}, text="the answer is 42", exit_code=ExitCode(int(how))), output)

    monkeypatch.setitem(cli.commands, "probe", command)


@pytest.mark.usefixtures("probe")
class TestEnds:
    @pytest.mark.parametrize("code", [0, 3, 4, 5, 6])
    def test_a_result_prints_data_and_ends_with_its_code(self, code: int, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["probe", str(code)]) == code
        out = capsys.readouterr()
        assert (out.out, out.err) == ("the answer is 42\n", "")

    def test_json_is_one_object_with_the_envelope_first(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["--format", "json", "probe", "5"]) == 5
        data = json.loads(capsys.readouterr().out)
        assert list(data) == ["command", "version", "ok", "exit_code", "answer"]
        assert (data["command"], data["ok"], data["exit_code"], data["answer"]) == ("probe", False, 5, 42)

    @pytest.mark.parametrize("kind", ["text", "json"])
    def test_a_file_gets_what_stdout_would_have(
        self, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "answer"
        assert run(["--format", kind, "probe", "3"]) == 3
        printed = capsys.readouterr().out
        assert run(["--format", kind, "probe", "3", "-o", str(path)]) == 3
        out = capsys.readouterr()
        assert (path.read_text(), out.out, out.err) == (printed, "", f"Wrote {path}.\n")

    def test_a_file_that_cannot_be_written_is_a_usage_error(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["probe", "0", "-o", str(tmp_path)]) == ExitCode.USAGE
        assert capsys.readouterr().err == f"Error: {tmp_path} cannot be written: Is a directory.\n"

    def test_an_error_is_one_paragraph(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["probe", "refuse"]) == ExitCode.FAILED
        out = capsys.readouterr()
        assert out.out == ""
        assert out.err == f"Error: the server takes no writes. {ReadOnlyError.default_hint}\n"

    def test_an_error_in_json_is_an_object_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["--format", "json", "probe", "refuse"]) == ExitCode.FAILED
        data = json.loads(capsys.readouterr().out)
        assert (data["ok"], data["exit_code"], data["error"]["type"]) == (False, 1, "ReadOnlyError")

    def test_ctrl_c_ends_with_130(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["probe", "interrupt"]) == ExitCode.INTERRUPTED
        assert capsys.readouterr().err == "\nInterrupted.\n"

    def test_a_crash_is_a_paragraph_and_a_traceback_only_on_request(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["probe", "crash"]) == ExitCode.FAILED
        quiet = capsys.readouterr().err
        assert quiet == "Error: unexpected ZeroDivisionError: by zero. -vv shows where it happened.\n"
        assert run(["-vv", "probe", "crash"]) == ExitCode.FAILED
        assert "Traceback" in capsys.readouterr().err

    def test_a_format_that_a_command_lacks_is_a_usage_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["--format", "github", "probe", "0"]) == ExitCode.USAGE
        assert "`probe` has no github output" in capsys.readouterr().err


def test_another_package_of_that_name_is_said_plainly(tmp_path_factory: pytest.TempPathFactory) -> None:
    stray = tmp_path_factory.mktemp("stray")
    (stray / "schema.py").write_text("class Schema: ...\n")
    launcher = Path(sys.executable).with_name("schemactl")
    done = subprocess.run(
        [launcher, "--help"], env={**os.environ, "PYTHONPATH": str(stray)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert str(stray / "schema.py") in done.stderr
    assert "Remove it from PYTHONPATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_files_overwritten_by_another_distribution_are_said_plainly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import schema
    from schema.__main__ import main

    monkeypatch.delattr(schema, "DISTRIBUTION")
    assert main() == 1
    assert "was overwritten by another project" in capsys.readouterr().err


@pytest.mark.parametrize("format_", ["text", "json"])
def test_what_the_output_cannot_encode_is_escaped(tmp_path: Path, format_: str) -> None:
    versions = tmp_path / "migrations/versions"
    versions.mkdir(parents=True)
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = migrations\n")
    (versions / "a.py").write_text('"""A→B."""\nrevision = "a"\ndown_revision = None\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "schema.cli", "--format", format_, "lineage", "show"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "A\\u2192B" in done.stdout
