"""How far a long operation has come: a bar on a terminal, a line every few seconds elsewhere, always on stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from schema.cli.context import App

LINE_INTERVAL_S = 5.0
"""Time between two lines where no bar can be drawn; what is done sooner prints none."""


@contextmanager
def progress(app: App, description: str, total: int | None, *, completed: int = 0) -> Iterator[Callable[[int], None]]:
    """Show the progress of `total` things, with rate and time left; silent with -q.

    Args:
        app: says whether a bar can be drawn and whether to be quiet.
        description: what is going on, such as `Seeding`.
        total: how many there are; None when nobody knows.
        completed: how many were done before; they don't count for the rate.

    Yields:
        A function to call, from one thread, with the number of things just done.
    """
    if app.interactive:
        with _bar(description, total, completed) as advance:
            yield advance
    else:
        yield _lines(app, description, total, completed)


@contextmanager
def _bar(description: str, total: int | None, completed: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        *(TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), MofNCompleteColumn()),
        *(TextColumn("{task.fields[rate]}"), TimeRemainingColumn(elapsed_when_finished=True)),
    )
    started, done = time.monotonic(), 0
    # stdout is left alone: it carries the data, wherever it goes.
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task(description, total=total, completed=completed, rate="")

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(task, advance=count, rate=_rate(done, time.monotonic() - started))

        yield advance


def _lines(app: App, description: str, total: int | None, completed: int) -> Callable[[int], None]:
    started = last = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, last
        done += count
        now = time.monotonic()
        if now - last < LINE_INTERVAL_S:
            return
        last = now
        reached, elapsed = completed + done, now - started
        parts = [f"{reached:,}"]
        if total:
            parts = [f"{reached:,} of {total:,} ({min(reached * 100 // total, 100)}%)"]
        parts.append(_rate(done, elapsed))
        if total and done:
            parts.append(f"{_duration(max(total - reached, 0) * elapsed / done)} left")
        app.status(f"{description}: {', '.join(parts)}")

    return advance


def _rate(done: int, elapsed_s: float) -> str:
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def _duration(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}"
