"""`schemactl backfill` and its subcommands."""

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schema.cli.backfill_text import (
    AGAIN,
    findings_data,
    findings_text,
    outcome_result,
    plan_result,
    progress_data,
    progress_text,
)
from schema.cli.context import App, Result, pass_app
from schema.cli.database import target
from schema.cli.lazy import LazyGroup
from schema.cli.options import Duration
from schema.errors import ExitCode, SchemaError, UsageError

if TYPE_CHECKING:
    from psycopg import Connection

    from schema.backfill.settings import Settings
    from schema.backfill.stop import Stop
    from schema.backfill.survey import Survey
    from schema.backfill.throttle.signal import Unit
    from schema.pg.target import Target


@click.group("backfill", cls=LazyGroup, lazy={}, invoke_without_command=True)
@click.option("--dry-run", is_flag=True, help="Do all the work and roll it back; nothing is written.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Connections that work.")
@click.option(
    "--batch-size",
    type=click.IntRange(1, 10_000),
    help="Sessions per transaction; adapts to --target-time when not given.",
)
@click.option(
    "--target-time",
    type=Duration(),
    default="75ms",
    show_default=True,
    metavar="SPAN",
    help="Time a batch should take.",
)
@click.option(
    "--duty",
    type=click.IntRange(1, 100),
    default=50,
    show_default=True,
    metavar="PERCENT",
    help="Share of the time that a worker works; it rests for the other part.",
)
@click.option(
    "--full-speed", is_flag=True, help="For a quiet hour: no rests, long batches, no limit on WAL and dead rows."
)
@click.option("--max-time", type=Duration(), metavar="SPAN", help="Begin no batch after this: 90s, 15m, 2h.")
@click.option(
    "--wait",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="SPAN",
    help="Wait so long, before the sweep, for transactions that are older than the run.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="SIGNAL=LIMIT",
    help="Hold while a signal is over this limit, such as replication_lag=30s; `off` takes no notice of it.",
)
@click.option(
    "--metrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep a Prometheus text file up to date.",
)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Give existing sessions their kernel groups.

    Works online, in short transactions, from where the last run stopped; the same command on another host joins the
    run. What a group should hold and cannot is quarantined, see `rejects`. Ends with 0, with 5 when something was
    quarantined, with 4 when work is left, because it is paused, out of time, or waits for an older transaction, with 6
    when its verification fails. Ctrl-C finishes the batch at hand and ends with 130; a second one aborts it.
    """
    if ctx.invoked_subcommand is not None:
        given = [
            name for name in ctx.params if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        ]
        if given:
            option = {parameter.name: parameter.opts[0] for parameter in command.params}[given[0]]
            raise UsageError(f"{option} belongs to a run, not to `{ctx.invoked_subcommand}`")
        return
    _run(ctx.ensure_object(App), **options)


def _run(app: App, *, dry_run: bool, full_speed: bool, metrics: Path | None, **options: Any) -> None:
    from schema.backfill import engine, partition, rehearsal, report
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.cli.progress import progress

    job = KernelGroups()
    settings = _settings(full_speed, **options)
    where = target(app)
    with _connect(where) as connection:
        before = None if dry_run else report.progress(connection, job)
        done = before.done if before is not None and before.finished_at is None else 0
        expected = partition.estimate(connection, job.parent)
        if dry_run:
            with progress(app, "Backfilling (dry run)", expected) as advance:
                rehearsed = rehearsal.dry_run(connection, job, settings, advance=advance)
    if dry_run:
        app.finish(outcome_result(rehearsed))

    connect = partial(_connect, where)
    observe = _metrics_writer(app, metrics) if metrics is not None else lambda _: None
    with progress(app, "Backfilling", expected, completed=done) as advance, _interruptible(app) as stop:
        outcome = engine.run(connect, job, settings, stop=stop, advance=advance, notify=app.status, observe=observe)
    if stop.is_requested and outcome.end == "interrupted":
        rolled_back = "the one at work was rolled back. " if stop.is_aborted else "none is left half done. "
        app.status(f"Every batch that was committed stays; {rolled_back}{AGAIN}")
    app.finish(outcome_result(outcome))


def _settings(full_speed: bool, **options: Any) -> "Settings":
    from schema.backfill.settings import Settings

    settings = Settings(
        batch_size=options["batch_size"],
        target=options["target_time"],
        duty=options["duty"] / 100,
        workers=options["workers"],
        max_time=options["max_time"],
        older_wait=options["wait"],
        limits=dict(_limit(text) for text in options["limits"]),
    )
    return settings.at_full_speed() if full_speed else settings


def _limit(text: str) -> tuple[str, float | None]:
    from schema.backfill.throttle.monitor import LIMITS

    name, separator, value = text.partition("=")
    if not separator or name not in LIMITS:
        raise UsageError(
            f"--limit {text!r} names no signal", hint=f"Write SIGNAL=LIMIT; there are {', '.join(LIMITS)}."
        )
    if value == "off":
        return name, None
    unit = LIMITS[name].unit
    try:
        return name, _amount(value, unit)
    except (ValueError, click.BadParameter) as error:
        raise UsageError(
            f"--limit {text!r} cannot be read",
            hint=f"{name} is counted in {unit}, from 0 on; `off` takes no notice of it.",
        ) from error


def _amount(text: str, unit: "Unit") -> float:
    from schema.backfill.throttle.signal import Unit
    from schema.quantity import parse_byte_size

    if unit in (Unit.BYTES, Unit.BYTES_PER_SECOND):
        return float(parse_byte_size(text))
    if unit is Unit.SECONDS:
        return Duration().convert(text, None, None).total_seconds()
    amount = float(text)
    if not 0 <= amount < math.inf:
        raise ValueError(text)
    return amount


@contextmanager
def _interruptible(app: App) -> "Iterator[Stop]":
    """A stop that the first Ctrl-C, or a SIGTERM, requests, and the second aborts."""
    from schema.backfill.stop import End, Stop

    stop = Stop()

    def interrupt(_number: int, _frame: object) -> None:
        if stop.is_requested:
            stop.abort()
        else:
            stop.request(End.INTERRUPTED)
            app.status("Finishing the batch at hand; Ctrl-C again aborts it.")

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _metrics_writer(app: App, path: Path) -> "Callable[[Connection[tuple[Any, ...]]], None]":
    """A function that keeps the file up to date; a file that can't be written is said once, and stops nothing."""
    from schema.backfill import metrics, report
    from schema.backfill.jobs.kernel_groups import KernelGroups

    failed = False

    def observe(connection: "Connection[tuple[Any, ...]]") -> None:
        nonlocal failed
        found = report.progress(connection, KernelGroups())
        if found is None:
            return
        try:
            metrics.write(path, found)
        except OSError as error:
            if not failed:
                app.status(f"The metrics cannot be written to {path}: {error.strerror}")
            failed = True

    return observe


@command.command("plan")
@pass_app
def plan(app: App) -> None:
    """Count what a run would write, cut the key ranges, and try one batch.

    The batch is written, measured and rolled back; nothing else is written. Where the database takes no writes, or the
    role may not write, there is no measure of it.
    """
    import psycopg

    from schema.backfill import partition, rehearsal, space, survey
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.backfill.settings import Settings
    from schema.pg.errors import translate

    job, settings = KernelGroups(), Settings()
    with _connect(target(app), primary=False) as connection:
        found = _look(app, connection, survey.plan, "Planning")
        parts = partition.cut(connection, job.parent, chunk_size=settings.chunk_size, workers=settings.workers)
        sample = failure = None
        try:
            sample = rehearsal.sample(connection, job, settings)
        except (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege) as error:
            failure = translate(error)
        free = space.free_space(connection)
    app.finish(plan_result(found, parts, sample, failure, free))


@command.command("verify")
@pass_app
def verify(app: App) -> None:
    """Hold links, groups, slots and environ against what the rules give; reads only.

    Ends with 6 on a mismatch. Groups that the application made or has changed may hold something else; that is
    reported, and is no mismatch.
    """
    from schema.backfill import report, survey
    from schema.backfill.jobs.kernel_groups import KernelGroups

    with _connect(target(app), primary=False) as connection:
        found = _look(app, connection, survey.verify, "Verifying")
        rejects = sum(report.reject_counts(connection, KernelGroups().name).values())
    code = ExitCode.REJECTS if rejects else ExitCode.OK
    if found.failed:
        code = ExitCode.MISMATCH
    verdict = f"{found.failed:,} mismatches" if found.failed else "No mismatch"
    lines = [f"{verdict} in {found.counts['sessions']:,} sessions; {rejects:,} rejects.", *findings_text(found)]
    data = {
        "sessions": found.counts["sessions"],
        "mismatches": found.failed,
        "rejects": rejects,
        "checks": dict(found.checks),
        "findings": findings_data(found.findings),
    }
    app.finish(Result(data, "\n".join(lines), code))


@command.command("status")
@click.option(
    "--metrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as Prometheus text too.",
)
@pass_app
def status(app: App, metrics: Path | None) -> None:
    """Show how far the newest run is, who works on it, and what holds it."""
    from schema.backfill import report
    from schema.backfill.jobs.kernel_groups import KernelGroups

    with _connect(target(app), primary=False) as connection:
        found = report.progress(connection, KernelGroups())
    if metrics is not None and found is None:
        app.status(f"No backfill has been run, so {metrics} is not written.")
    elif metrics is not None and found is not None:
        from schema.backfill.metrics import write

        try:
            write(metrics, found)
        except OSError as error:
            raise SchemaError(
                f"{metrics} cannot be written: {error.strerror}", hint="Name a file in a folder that is yours to write."
            ) from error
    app.finish(Result(data={"backfill": progress_data(found)}, text=progress_text(found)))


@command.command("pause")
@pass_app
def pause(app: App) -> None:
    """Ask every worker of the active run, on any host, to stop after its batch."""
    _steer(app, "paused", "Paused. Workers stop after the batch at hand; `schemactl backfill resume` lifts it.")


@command.command("resume")
@pass_app
def resume(app: App) -> None:
    """Lift a pause; `schemactl backfill` then goes on."""
    _steer(app, "running", "Resumed. " + AGAIN)


@command.command("rejects")
@click.option("--show-values", is_flag=True, help="Show the values too; they may be secrets.")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="List no more than this.")
@pass_app
def rejects(app: App, show_values: bool, limit: int) -> None:
    """List what could not be carried over."""
    from schema.backfill import report
    from schema.backfill.jobs.kernel_groups import KernelGroups

    job = KernelGroups()
    with _connect(target(app), primary=False) as connection:
        counts = report.reject_counts(connection, job.name)
        rows = report.rejects(connection, job.name, show_values=show_values, limit=limit)
    listed = [
        {
            "run": str(row.run_id),
            "session": row.parent_key,
            "kernel": row.kernel_id and str(row.kernel_id),
            "field": row.field,
            "reason": row.reason,
            **({"value": row.raw} if show_values else {}),
        }
        for row in rows
    ]
    total = sum(counts.values())
    lines = [
        f"session {row.parent_key}  {f'kernel {row.kernel_id}' if row.kernel_id else 'all its kernels':43}  "
        f"{row.field}: {row.reason}" + (f": {row.raw!r}" if show_values else "")
        for row in rows
    ]
    by_field = ", ".join(f"{field} {count:,}" for field, count in counts.items())
    lines.append(f"{total:,} rejects" + (f": {by_field}" if by_field else "") + ".")
    if len(rows) < total:
        lines.append(f"The first {len(rows):,} are listed; --limit lists more.")
    app.finish(Result({"rejects": total, "by_field": dict(counts), "listed": listed}, "\n".join(lines)))


def _connect(where: "Target", *, primary: bool = True) -> "Connection[tuple[Any, ...]]":
    """Connect; to a server that takes writes, unless `primary` is False."""
    from schema.pg.connect import connect

    return connect(where, application_name="schemactl backfill", autocommit=True, primary=primary)


def _look(app: App, connection: "Connection[tuple[Any, ...]]", look: "Callable[..., Survey]", doing: str) -> "Survey":
    from schema.backfill import partition
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.cli.progress import progress

    job = KernelGroups()
    with progress(app, doing, partition.estimate(connection, job.parent)) as advance:
        return look(connection, job, advance=advance)


def _steer(app: App, desired: str, message: str) -> None:
    from schema.backfill import ledger
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.models.status import RunState

    with _connect(target(app)) as connection:
        run = ledger.steer(connection, KernelGroups().name, RunState(desired))
    if run is None:
        raise SchemaError("no backfill is active", hint="`schemactl backfill` begins one.")
    app.finish(Result(data={"run": str(run.id), "state": run.state}, text=message))
