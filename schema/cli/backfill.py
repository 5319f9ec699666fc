"""`schemactl backfill` and its subcommands."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import target
from schema.cli.lazy import LazyGroup
from schema.errors import ExitCode, SchemaError, UsageError

if TYPE_CHECKING:
    from psycopg import Connection

    from schema.backfill.engine import Outcome
    from schema.backfill.job import Finding
    from schema.backfill.report import Progress
    from schema.backfill.survey import Survey

FINDINGS_SHOWN = 20
"""Findings of each check that the text output lists; JSON has more."""

AGAIN = "`schemactl backfill` goes on from there."

_LABELS = {
    "sessions": "sessions",
    "sessions_with_kernels": "  with kernels",
    "kernels": "kernels",
    "unlinked": "  to link",
    "roles": "session roles",
    "groups": "kernel groups",
    "slots": "resource slots",
    "environ": "environment variables",
    "rejects": "rejects",
    "divergent": "divergent roles",
    "linked": "kernels linked",
}

_CHECKS = {
    "unlinked": "kernels without a group",
    "mislinked": "kernels linked to another session's or role's group",
    "empty": "groups without a kernel",
    "spec": "backfilled groups that hold something else than the rules give",
    "differs": "groups of the application, or changed since, that hold something else than the rules give",
    "divergent": "roles whose kernels differ from each other",
}


class Duration(click.ParamType[timedelta]):
    """A time span: `90`, `90s`, `15m`, `2h`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read the text, a number of seconds when it has no unit."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh]?)", value)
        if match is None:
            self.fail(f"{value!r} is no time span such as 90s, 15m or 2h", param, ctx)
        return timedelta(seconds=float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]])


@click.group("backfill", cls=LazyGroup, lazy={}, invoke_without_command=True)
@click.option("--dry-run", is_flag=True, help="Do all the work and roll it back; nothing is written.")
@click.option(
    "--batch-size", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Sessions per transaction."
)
@click.option("--max-time", type=Duration(), metavar="SPAN", help="Begin no batch after this: 90s, 15m, 2h.")
@click.pass_context
def command(ctx: click.Context, dry_run: bool, batch_size: int, max_time: timedelta | None) -> None:
    """Give existing sessions their kernel groups.

    Works online, in short transactions, from where the last run stopped; what a group should hold and cannot is
    quarantined, see `rejects`. Ends with 0, with 5 when something was quarantined, with 4 when work is left, because
    it is paused, out of time, or another process is at it.
    """
    if ctx.invoked_subcommand is not None:
        given = [
            name for name in ctx.params if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        ]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} belongs to a run, not to `{ctx.invoked_subcommand}`")
        return
    _run(ctx.ensure_object(App), dry_run, batch_size, max_time)


def _run(app: App, dry_run: bool, batch_size: int, max_time: timedelta | None) -> None:
    from schema.backfill import engine, keyset, report
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.cli.progress import progress

    job = KernelGroups()
    with _connected(app) as connection:
        before = None if dry_run else report.progress(connection)
        done = before.done if before is not None and before.finished_at is None else 0
        work = engine.dry_run if dry_run else engine.run
        with progress(
            app,
            "Backfilling (dry run)" if dry_run else "Backfilling",
            keyset.count(connection, job.parent),
            completed=done,
        ) as advance:
            try:
                outcome = work(connection, job, engine.Settings(batch_size, max_time), advance=advance)
            except KeyboardInterrupt:
                if not dry_run:
                    app.status("Every batch that was committed stays; the one at work was rolled back. " + AGAIN)
                raise
    app.finish(_outcome(outcome))


def _outcome(outcome: "Outcome") -> Result:
    rate = outcome.parents / outcome.seconds if outcome.seconds else 0.0
    dry = outcome.run is None
    heading = {
        "complete": "Dry run, nothing is written: " if dry else "Backfill complete: ",
        "time": "Out of time: ",
        "paused": "Paused: ",
    }[outcome.end] + f"{outcome.parents:,} sessions in {outcome.seconds:.1f} s, {rate:,.0f}/s."
    lines = [heading, *_table(outcome.totals)]
    code = ExitCode.OK
    if outcome.end != "complete":
        code = ExitCode.MORE_WORK
        if not dry:
            lines.append(AGAIN if outcome.end == "time" else "`schemactl backfill resume`, then run it again.")
    elif outcome.totals.get("rejects") and not dry:
        code = ExitCode.REJECTS
        lines.append("`schemactl backfill rejects` lists what could not be carried over.")
    data = {
        "run": outcome.run and str(outcome.run.id),
        "end": outcome.end,
        "dry_run": dry,
        "sessions": outcome.parents,
        "seconds": round(outcome.seconds, 3),
        "sessions_per_second": round(rate, 1),
        "totals": dict(outcome.totals),
    }
    return Result(data, "\n".join(lines), code)


@command.command("plan")
@pass_app
def plan(app: App) -> None:
    """Count what a run would write; reads only."""
    from schema.backfill import survey

    with _connected(app) as connection:
        found = _look(app, connection, survey.plan, "Planning")
    data = {"counts": dict(found.counts), "findings": _findings_data(found.findings)}
    app.finish(Result(data, "\n".join([*_table(found.counts), *_findings_text(found)])))


@command.command("verify")
@pass_app
def verify(app: App) -> None:
    """Hold links, groups, slots and environ against what the rules give; reads only.

    Ends with 6 on a mismatch. Groups that the application made or has changed may hold something else; that is
    reported, and is no mismatch.
    """
    from schema.backfill import report, survey
    from schema.backfill.jobs.kernel_groups import KernelGroups

    with _connected(app) as connection:
        found = _look(app, connection, survey.verify, "Verifying")
        rejects = sum(report.reject_counts(connection, KernelGroups().name).values())
    code = ExitCode.REJECTS if rejects else ExitCode.OK
    if found.failed:
        code = ExitCode.MISMATCH
    verdict = f"{found.failed:,} mismatches" if found.failed else "No mismatch"
    lines = [f"{verdict} in {found.counts['sessions']:,} sessions; {rejects:,} rejects.", *_findings_text(found)]
    data = {
        "sessions": found.counts["sessions"],
        "mismatches": found.failed,
        "rejects": rejects,
        "checks": dict(found.checks),
        "findings": _findings_data(found.findings),
    }
    app.finish(Result(data, "\n".join(lines), code))


@command.command("status")
@pass_app
def status(app: App) -> None:
    """Show how far the newest run is, and who works on it."""
    from schema.backfill import report

    with _connected(app) as connection:
        found = report.progress(connection)
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
    with _connected(app) as connection:
        counts = report.reject_counts(connection, job.name)
        rows = report.rejects(connection, job.name, show_values=show_values, limit=limit)
    listed = [
        {
            "run": str(row.run_id),
            "session": str(row.session_id),
            "kernel": row.kernel_id and str(row.kernel_id),
            "field": row.field,
            "reason": row.reason,
            **({"value": row.raw} if show_values else {}),
        }
        for row in rows
    ]
    total = sum(counts.values())
    lines = [
        f"session {row.session_id}  {f'kernel {row.kernel_id}' if row.kernel_id else 'all its kernels':43}  "
        f"{row.field}: {row.reason}" + (f": {row.raw!r}" if show_values else "")
        for row in rows
    ]
    by_field = ", ".join(f"{field} {count:,}" for field, count in counts.items())
    lines.append(f"{total:,} rejects" + (f": {by_field}" if by_field else "") + ".")
    if len(rows) < total:
        lines.append(f"The first {len(rows):,} are listed; --limit lists more.")
    app.finish(Result({"rejects": total, "by_field": dict(counts), "listed": listed}, "\n".join(lines)))


def progress_data(progress: "Progress | None") -> dict[str, Any] | None:
    """A run's progress as JSON."""
    if progress is None:
        return None
    return {
        "run": str(progress.run_id),
        "job": progress.job,
        "state": progress.state,
        "percent": round(progress.percent, 1),
        "done": progress.done,
        "expected": progress.expected,
        "totals": dict(progress.totals),
        "workers": [
            {"owner": worker.owner, "lease_expires_at": worker.lease_expires_at} for worker in progress.workers
        ],
        "last_error": progress.last_error,
        "created_at": progress.created_at,
        "updated_at": progress.updated_at,
        "finished_at": progress.finished_at,
    }


def progress_text(progress: "Progress | None") -> str:
    """A run's progress for people."""
    if progress is None:
        return "No backfill has been run."
    workers = ", ".join(worker.owner for worker in progress.workers) or "nobody"
    lines = [
        f"Backfill {progress.state}: {progress.percent:.1f}%, {progress.done:,} of {progress.expected:,} sessions.",
        f"Begun {progress.created_at:%Y-%m-%d %H:%M:%S %Z}, last batch {progress.updated_at:%Y-%m-%d %H:%M:%S %Z}.",
    ]
    if progress.finished_at is None:
        lines.append(f"At work: {workers}.")
    if progress.last_error:
        lines.append(f"Last error: {progress.last_error}.")
    return "\n".join([*lines, *_table(progress.totals)])


@contextmanager
def _connected(app: App) -> "Iterator[Connection[tuple[Any, ...]]]":
    from schema.pg.connect import connect

    with connect(target(app), application_name="schemactl backfill", autocommit=True) as connection:
        yield connection


def _look(app: App, connection: "Connection[tuple[Any, ...]]", look: "Callable[..., Survey]", doing: str) -> "Survey":
    from schema.backfill import keyset
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.cli.progress import progress

    job = KernelGroups()
    with progress(app, doing, keyset.count(connection, job.parent)) as advance:
        return look(connection, job, advance=advance)


def _steer(app: App, desired: str, message: str) -> None:
    from schema.backfill import ledger
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.models.status import RunState

    with _connected(app) as connection:
        run = ledger.steer(connection, KernelGroups().name, RunState(desired))
    if run is None:
        raise SchemaError("no backfill is active", hint="`schemactl backfill` begins one.")
    app.finish(Result(data={"run": str(run.id), "state": run.state}, text=message))


def _table(counts: Mapping[str, int]) -> list[str]:
    return [f"{label:<22} {counts[name]:>14,}" for name, label in _LABELS.items() if name in counts]


def _findings_data(findings: "Iterable[Finding]") -> list[dict[str, Any]]:
    return [
        {
            "check": finding.check,
            "session": str(finding.key),
            "role": finding.role,
            "detail": finding.detail,
            "fails": finding.fails,
        }
        for finding in findings
    ]


def _findings_text(survey: "Survey") -> Iterator[str]:
    for check, label in _CHECKS.items():
        if count := survey.checks[check]:
            yield f"{count:,} {label}:"
            shown = [finding for finding in survey.findings if finding.check == check][:FINDINGS_SHOWN]
            yield from (f"  session {finding.key} role {finding.role!r}: {finding.detail}" for finding in shown)
            if count > len(shown):
                yield f"  and {count - len(shown):,} more; --format json lists up to 1,000"
