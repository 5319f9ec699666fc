"""`schemactl seed` before it has a database."""

import subprocess
import sys

import pytest

from schema.cli.app import run
from schema.cli.seed import PROFILES
from schema.errors import ExitCode
from schema.seed import Profile


def test_profiles_are_the_profiles() -> None:
    assert tuple(profile.value for profile in Profile) == PROFILES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--sessions'"),
        (["--sessions", "-1"], "-1 is not in the range"),
        (["--sessions", "many"], "not a valid integer"),
        (["--sessions", "1", "--seed", "-1"], "-1 is not in the range"),
        (["--sessions", "1", "--profile", "dirty"], "'dirty' is not one of 'eras', 'clean'"),
    ],
)
def test_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["seed", *arguments]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_help_is_light() -> None:
    code = "import sys; from schema.cli import run; run(['seed', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--sessions" in done.stdout
    assert {"sqlalchemy", "psycopg", "rich", "alembic"} & set(done.stdout.split()) == set()
