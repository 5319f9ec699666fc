"""`schemactl status`."""

from typing import TYPE_CHECKING

import click

from schema.cli.backfill_text import progress_data
from schema.cli.context import App, Result, pass_app
from schema.cli.database import project, target
from schema.cli.project import findings_data, findings_text

if TYPE_CHECKING:
    from schema.backfill.report import Progress
    from schema.migrate.status import DatabaseStatus
    from schema.pg.target import Target


@click.command("status")
@pass_app
def command(app: App) -> None:
    """Show which database, its revision, what is pending, and the backfill."""
    from schema.backfill.jobs.kernel_groups import KernelGroups
    from schema.backfill.report import progress
    from schema.migrate.status import database_status
    from schema.pg.connect import connect

    of = project(app)
    where = target(app, of)
    status = database_status(of, where)
    with connect(where, autocommit=True) as connection:
        backfill = progress(connection, KernelGroups())
    app.finish(Result(data(status, where, backfill), text(status, where, backfill)))


def data(status: "DatabaseStatus", where: "Target", backfill: "Progress | None") -> dict[str, object]:
    """The status as JSON."""
    return {
        "database": {"url": where.masked, "source": where.source, "server_version": status.server_version},
        "current": status.current,
        "heads": status.heads,
        "pending": [{"revision": revision.id, "title": revision.title} for revision in status.pending],
        "tables": status.tables,
        "foreign": status.foreign,
        "skipped": [
            {"history": answer.then, "revisions": [revision.id for revision in answer.revisions]}
            for answer in status.skipped
        ],
        "findings": findings_data(status.findings),
        "runner": vars(status.runner) if status.runner else None,
        "unfinished": _unfinished_data(status),
        "waiting": [vars(waiting) for waiting in status.waiting],
        "backfill": progress_data(backfill),
    }


def text(status: "DatabaseStatus", where: "Target", backfill: "Progress | None") -> str:
    """The status for people."""
    lines = [
        f"Database  {where.masked} (from {where.source})",
        f"Server    PostgreSQL {status.server_version}",
        f"Current   {', '.join(status.current) or 'none'}",
        f"Head      {', '.join(status.heads) or 'none'}",
        f"Pending   {len(status.pending) or 'nothing'}",
        *(f"          {revision}" for revision in status.pending),
        f"Backfill  {_backfill(backfill)}",
    ]
    if status.runner:
        lines.append(f"Runner    at work: {status.runner}")
    if status.unfinished:
        way = "upgrade to" if status.unfinished.is_upgrade else "downgrade from"
        lines.append(f"Half done {way} {status.unfinished.revision}: {status.unfinished}")
    for waiting in status.waiting:
        holders = ", ".join(map(str, waiting.blocked_by))
        lines.append(f"Locks     server process {waiting.pid} waits for {holders}, since {waiting.seconds:.0f} s")
    for answer in status.skipped:
        never = ", ".join(revision.id for revision in answer.revisions)
        lines.append(f"Skipped   {never} never ran, if the database got there with {answer.then}")
    lines += [f"Finding   {line}" for line in findings_text(status.findings).splitlines()]
    if status.foreign:
        lines.append(
            f"The database holds {status.tables} table{'s' if status.tables > 1 else ''} and no revision: they were "
            "made another way. An upgrade leaves them alone, and stops if one has a name that it needs."
        )
    return "\n".join(lines)


def _unfinished_data(status: "DatabaseStatus") -> dict[str, object] | None:
    found = status.unfinished
    if found is None:
        return None
    return {
        "revision": found.revision,
        "is_upgrade": found.is_upgrade,
        "statements": [{"statement": entry.statement, "committed": entry.committed} for entry in found.entries],
    }


def _backfill(backfill: "Progress | None") -> str:
    if backfill is None:
        return "never run"
    rejects = backfill.totals.get("rejects", 0)
    return (
        f"{backfill.state}, {backfill.percent:.1f}%: {backfill.done:,} of {backfill.expected:,} sessions, "
        f"{rejects:,} rejects"
    )
