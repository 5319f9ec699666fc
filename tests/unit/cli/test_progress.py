"""The progress display: lines where no bar can be drawn, a bar on a terminal, silence with -q."""

import os
import pty
import re
import subprocess
import sys

import pytest

from schema.cli import progress as module
from schema.cli.context import App
from schema.cli.progress import progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_line_every_few_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(App(), "Seeding", 100_000) as advance:
        for _ in range(12):
            clock.now += 1
            advance(2000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "Seeding: 10,000 of 100,000 (10%), 2,000/s, 0:00:45 left",
        "Seeding: 20,000 of 100,000 (20%), 2,000/s, 0:00:40 left",
    ]


def test_what_was_done_before_does_not_count_for_the_rate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(App(), "Backfill", 100, completed=50) as advance:
        clock.now += 10
        advance(10)
    assert capsys.readouterr().err == "Backfill: 60 of 100 (60%), 1.0/s, 0:00:40 left\n"


@pytest.mark.parametrize(("total", "line"), [(None, "Work: 5, 1.0/s\n"), (0, "Work: 5, 1.0/s\n")])
def test_without_a_total(clock: Clock, capsys: pytest.CaptureFixture[str], total: int | None, line: str) -> None:
    with progress(App(), "Work", total) as advance:
        clock.now += 5
        advance(5)
    assert capsys.readouterr().err == line


def test_more_than_the_total_is_no_more_than_all(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(App(), "Work", 10) as advance:
        clock.now += 6
        advance(12)
    assert capsys.readouterr().err == "Work: 12 of 10 (100%), 2.0/s, 0:00:00 left\n"


def test_quiet(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(App(verbosity=-1), "Seeding", 10) as advance:
        clock.now += 60
        advance(5)
    assert capsys.readouterr() == ("", "")


ON_A_TERMINAL = """
import sys
from schema.cli.context import App
from schema.cli.progress import progress
with progress(App(), "Seeding", 40) as advance:
    for _ in range(4):
        advance(10)
    print("data")
"""


def on_a_terminal(**environment: str) -> tuple[str, str]:
    """Standard output, and what a terminal at stderr got."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "120", **environment},
    )
    os.close(theirs)
    shown = b""
    # Linux ends a terminal without a writer by EIO, macOS by an empty read.
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass
    os.close(ours)
    return done.stdout, shown.decode()


def test_a_bar_on_a_terminal() -> None:
    out, shown = on_a_terminal()
    assert out == "data\n"
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert "Seeding" in plain
    assert "100% 40/40" in plain
    assert re.search(r"[0-9.,]+/s", plain)
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", shown)


def test_no_color() -> None:
    out, shown = on_a_terminal(NO_COLOR="1")
    assert out == "data\n"
    assert "40/40" in shown
    assert re.search(r"\x1b\[[0-9;]*[34][0-9]m", shown) is None


def test_a_terminal_that_cannot_draw() -> None:
    assert on_a_terminal(TERM="dumb") == ("data\n", "")
