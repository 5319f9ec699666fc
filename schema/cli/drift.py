"""`schemactl drift`."""

import gc
import os
from typing import TYPE_CHECKING

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import project, target
from schema.cli.interrupts import terminated_like_interrupted
from schema.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from schema.drift.examine import Examination
    from schema.migrate.project import Project
    from schema.pg.target import Target

SIDES = ("models", "history", "live")


@click.command("drift")
@click.option(
    "--between",
    metavar="SIDES",
    help="Compare these two only: models, history or live, with a comma between them.",
)
@click.option(
    "--scratch-url",
    envvar="SCHEMACTL_SCRATCH_URL",
    metavar="URL",
    help="Make scratch databases on this server (it needs CREATEDB) and not on one of our own.",
)
@pass_app
def command(app: App, between: str | None, scratch_url: str | None) -> None:
    """Compare the models, the history and the live database, three ways.

    Without a database (none is named and the embedded server does not run) the models are compared with the history:
    the form for CI. The live database is only read. Exit code 3 when something differs, and 1 when nothing
    does but a side could not be had.
    """
    # Nearly all that is imported and read stays until the end: to look for garbage in it takes a tenth of the time.
    gc.disable()
    try:
        app.finish(_examined(app, between, scratch_url))
    finally:
        gc.enable()


def _examined(app: App, between: str | None, scratch_url: str | None) -> Result:
    from schema.drift import report
    from schema.drift.examine import Request, examine
    from schema.drift.verdict import Side

    of = project(app)
    sides = _sides(between)
    request = Request(
        project=of,
        live=_live(app, of, needed=between is not None) if "live" in sides else None,
        sides=frozenset(map(Side, sides)),
        scratch_url=scratch_url,
        pg_bindir=app.pg_bindir,
        report=app.status,
    )
    # A stopped CI job gets SIGTERM, and would leave its scratch database on somebody's server.
    with terminated_like_interrupted():
        found = examine(request)
    database = None if request.live is None else {"url": request.live.masked, "source": request.live.source}
    return Result(
        {"database": database, **report.as_data(found)},
        report.as_text(found, verbose=app.verbosity > 0),
        _exit_code(found),
        markdown=report.as_markdown(found),
        github=report.as_github(found),
    )


def _exit_code(found: "Examination") -> ExitCode:
    if not found.clean:
        return ExitCode.FINDINGS
    # Not green: a side that was asked for was not compared.
    return ExitCode.FAILED if found.faults else ExitCode.OK


def _sides(between: str | None) -> tuple[str, ...]:
    if between is None:
        return SIDES
    sides = tuple(part.strip() for part in between.split(","))
    if len(set(sides)) != 2 or len(sides) != 2 or not set(sides) <= set(SIDES):
        raise UsageError(
            f"--between takes two sides, not {between!r}", hint="Write, for instance, --between models,live."
        )
    return sides


def _live(app: App, of: "Project", *, needed: bool) -> "Target | None":
    """The live database; None when none is named and none is there, unless one is needed."""
    from schema.migrate.project import state_dir
    from schema.pg.embedded import EmbeddedServer

    # `alembic init` writes a URL that begins with driver://, and many an env.py has its own and leaves that.
    named = app.url or os.environ.get("SCHEMACTL_URL") or os.environ.get("DATABASE_URL")
    if not named and (of.url is None or of.url.startswith("driver://")):
        running = EmbeddedServer(state_dir(of.ini), app.pg_bindir).status().running
        if not running and not needed:
            app.status("No database is named and the embedded server does not run: models and history are compared.")
            return None
    return target(app, of)
