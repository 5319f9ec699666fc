"""`schemactl session`: enqueue sessions, and remove ended ones."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import target
from schema.cli.lazy import LazyGroup
from schema.cli.progress import progress
from schema.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from schema.write.purge import PurgeRun

LOCK_TIMEOUT_MS = 2000
"""How long a purge waits for one lock: then the session that has it stays."""

_NAMED = 20
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.group("session", cls=LazyGroup, lazy={})
def command() -> None:
    """Enqueue sessions, and remove ended ones."""


@command.command("enqueue")
@click.option("--spec", type=_FILE, required=True, help="The session and its groups, JSON.")
@pass_app
def enqueue(app: App, spec: Path) -> None:
    """Write a session: its groups with slots and environ, its kernels and their allocations.

    All of it or nothing. docs/service-definition.md describes the document.
    """
    from schema.pg.connect import engine
    from schema.spec.documents import read_document
    from schema.spec.session import parse_session
    from schema.write.enqueue import enqueue as run

    parsed = parse_session(read_document(spec), str(spec))
    with engine(target(app)).begin() as connection:
        done = run(connection, parsed)
    rows = done.rows
    data = {
        "session": done.id,
        "groups": [{"role": role, "id": id_} for role, id_ in done.groups.items()],
        "kernels": done.kernels,
        "slots": len(rows.slots),
        "environ": len(rows.environ),
    }
    lines = [
        f"Session {done.id}: {done.kernels} kernel{'' if done.kernels == 1 else 's'}",
        *(f"  group {role}  {id_}" for role, id_ in done.groups.items()),
    ]
    app.finish(Result(data, "\n".join(lines)))


@command.command("purge")
@click.option("--terminated-before", required=True, metavar="DATE", help="Date or time, UTC unless it says otherwise.")
@click.option("--batch", type=click.IntRange(1, 10_000), default=500, show_default=True, help="Sessions at a time.")
@click.option("--dry-run", is_flag=True, help="Only say what would go and what would stay.")
@pass_app
def purge(app: App, terminated_before: str, batch: int, dry_run: bool) -> None:
    """Remove the sessions that ended before a date, with their kernels and groups.

    Batches are committed one by one; an interrupted run is gone on with by running it again. A session stays, and is
    named, when a part of it is live, when another session depends on it, or when something else refers to it. Exit code
    4 when another transaction had one locked.
    """
    from schema.pg.connect import engine
    from schema.write.purge import Reason
    from schema.write.purge import purge as run

    before = _moment(terminated_before)
    with_timeout = engine(target(app), lock_timeout_ms=LOCK_TIMEOUT_MS)
    description = "Sessions that would go" if dry_run else "Sessions removed"
    with progress(app, description, None) as advance:
        done = run(with_timeout, before, batch=batch, dry_run=dry_run, advance=lambda each: advance(len(each.sessions)))
    busy = any(one.reason is Reason.BUSY for one in done.blocked)
    data = {
        "terminated_before": before.isoformat(),
        "dry_run": dry_run,
        "sessions": done.sessions,
        "kernels": done.kernels,
        "slots": done.slots,
        "groups": done.groups,
        "blocked": [{"session": one.session, "reason": one.reason, "detail": one.detail} for one in done.blocked],
    }
    app.finish(Result(data, _text(done, dry_run), ExitCode.MORE_WORK if busy else ExitCode.OK))


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no date", hint="Write 2026-01-31 or 2026-01-31T12:00:00+09:00.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > datetime.now(UTC):
        raise UsageError(f"{text} is in the future", hint="Sessions that end from now on are not to be removed yet.")
    return moment


def _text(done: "PurgeRun", dry_run: bool) -> str:
    verb = "Would remove" if dry_run else "Removed"
    lines = [
        f"{verb} {done.sessions} sessions with {done.kernels} kernels, {done.groups} groups and {done.slots} slots."
    ]
    if done.blocked:
        lines.append(f"Kept {len(done.blocked)}:")
        lines += [f"  session {one.session}: {one.detail}" for one in done.blocked[:_NAMED]]
        if len(done.blocked) > _NAMED:
            lines.append(f"  and {len(done.blocked) - _NAMED} more; --format json names all")
    return "\n".join(lines)
