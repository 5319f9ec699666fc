"""docs/privileges.md says what each command needs: with just that it works, with any of it missing it says so."""

import itertools
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from schema.cli import run
from schema.pg.connect import connect
from schema.pg.target import Target
from schema.seed import seed

PAGE = (Path(__file__).parents[2] / "docs/privileges.md").read_text()
SECTIONS = {
    command: re.sub(r"\s+", " ", block[1])
    for title, body in re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", PAGE, re.MULTILINE)
    if (block := re.search(r"```sql\n(.*?)```", body, re.DOTALL))
    for command in re.findall(r"`([^`]+)`", title)
}
EXIT_CODES = {"backfill verify": 6}


def grants(block: str) -> list[tuple[str, str]]:
    """Each privilege on each table that the statements of a section give."""
    found = []
    for privileges, tables in re.findall(r"GRANT (.*?) ON (.*?) TO operator;", block):
        found += [(privilege, table) for privilege in privileges.split(", ") for table in tables.split(", ")]
    assert len(found) > 1
    return found


@pytest.fixture
def operator(connection: psycopg.Connection) -> Iterator[str]:
    """A role without any privilege of its own."""
    connection.autocommit = True
    name = f"operator_{uuid.uuid4().hex[:12]}"
    connection.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    connection.execute(f"DROP OWNED BY {name}")
    connection.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("command", SECTIONS)
def test_a_command_needs_what_the_page_says(
    command: str,
    head_target: Target,
    connection: psycopg.Connection,
    operator: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with connect(head_target) as seeding:
        seed(seeding, sessions=1000 if command == "backfill" else 20)
    # A run that is under way, but for those that begin.
    if command not in ("backfill", "seed"):
        run(
            ["-q", "--url", head_target.url.render_as_string(False), "backfill", "--batch-size", "5", "--max-time", "0"]
        )
    url = head_target.url.set(username=operator).render_as_string(False)

    seeds = itertools.count(1)

    def schemactl() -> int:
        capsys.readouterr()
        if command == "backfill":
            # Each begins a run of its own; one that may do all but verify has written everything.
            connection.execute("DELETE FROM backfill_runs")
        # Each with a seed of its own: one that fails on its sessions leaves its tenant.
        arguments = {
            "seed": ["--sessions", "300", "--seed", str(next(seeds))],
            # The signal that a role outside pg_monitor cannot read, and so is held by.
            "backfill": ["--limit", "oldest_xmin=off"],
        }.get(command, [])
        return run(["-q", "--url", url, *command.split(), *arguments])

    needed = grants(SECTIONS[command])
    for privilege, table in needed:
        connection.execute(f"GRANT {privilege} ON {table} TO {operator}")
    for privilege, table in needed:
        connection.execute(f"REVOKE {privilege} ON {table} FROM {operator}")
        assert schemactl() == 1, (privilege, table)
        assert "permission denied for table" in capsys.readouterr().err
        connection.execute(f"GRANT {privilege} ON {table} TO {operator}")
    assert schemactl() == EXIT_CODES.get(command, 0), capsys.readouterr().err


def test_every_command_that_reads_a_database_is_there() -> None:
    assert {command.split()[0] for command in SECTIONS} == {"status", "seed", "backfill"}
    assert len(SECTIONS) == 10
