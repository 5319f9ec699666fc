"""The examples of docs/service-definition.md, run as they stand there."""

import re
import shlex
from pathlib import Path

import pytest

from schema.cli import run
from schema.cli.deployment import PRECEDENCES, VARIANTS
from schema.spec.definition import ENVIRONMENT, TABLES
from schema.spec.draft import RevisionDraft, RuntimeVariant
from schema.spec.merge import Precedence
from schema.spec.session import GroupSpec, SessionSpec, parse_session

PAGE = (Path(__file__).parents[2] / "docs/service-definition.md").read_text()
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CONSOLE = [text for kind, _, text in BLOCKS if kind == "console"]


@pytest.mark.parametrize("text", CONSOLE, ids=lambda text: text.splitlines()[0][2:60])
def test_the_examples(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _, name, content in BLOCKS:
        if name:
            (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    command, _, expected = text.partition("\n")
    code = run(shlex.split(command)[2:])
    printed = capsys.readouterr()
    assert printed.out == expected
    assert code == ("problems\n" in expected)


def test_the_session_example_is_valid() -> None:
    (spec,) = (content for _, name, content in BLOCKS if name == "spec.json")
    assert parse_session(spec.encode(), "spec.json").cluster_size == 4


def test_the_page_and_the_command_name_everything() -> None:
    assert (*VARIANTS,) == tuple(RuntimeVariant)
    assert (*PRECEDENCES,) == tuple(Precedence)
    names = [*VARIANTS, *RevisionDraft.model_fields, *SessionSpec.model_fields, *GroupSpec.model_fields]
    assert [name for name in (*names, *ENVIRONMENT) if f"`{name}`" not in PAGE] == []
    assert [table for table in TABLES if f"`[{table}]`" not in PAGE] == []
    assert len(CONSOLE) == 3
