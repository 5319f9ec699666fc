"""`schemactl server`: the embedded PostgreSQL server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.lazy import LazyGroup
from schema.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from schema.pg.embedded import EmbeddedServer


@click.group("server", cls=LazyGroup, lazy={})
def command() -> None:
    """Run the embedded PostgreSQL server.

    Every command that is given no database starts it by itself; docs/server.md says where its data are.
    """


def _server(app: App) -> EmbeddedServer:
    from schema.migrate.project import find_config, state_dir
    from schema.pg.embedded import EmbeddedServer

    return EmbeddedServer(state_dir(find_config(app.config)), app.pg_bindir)


def _data(server: EmbeddedServer) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(server.status())


@command.command()
@pass_app
def start(app: App) -> None:
    """Start the server, and make its data when there are none.

    JSON: `started` (whether it was this call), and the keys of `server status`.
    """
    server = _server(app)
    app.detail(f"Starting PostgreSQL {server.installation.version} in {server.folder} ...")
    started = server.ensure_running()
    app.status("Started." if started else "It runs already.")
    data = _data(server)
    app.finish(Result(data={"started": started, **data}, text=str(data["url"])))


@command.command()
@pass_app
def stop(app: App) -> None:
    """Stop the server; its data stay.

    JSON: `stopped`, false when it did not run.
    """
    stopped = _server(app).stop()
    app.finish(Result(data={"stopped": stopped}, text="Stopped." if stopped else "It does not run."))


@command.command()
@pass_app
def status(app: App) -> None:
    """Show whether the server runs, and where its data are.

    JSON: `running`, `pid`, `url`, `folder`, `account`, `data_major` (null without data), `server_version`,
    `bindir`.
    """
    data = _data(_server(app))
    state = f"running (process {data['pid']})" if data["running"] else "not running"
    if data["pid"] is not None and not data["running"]:
        state = f"not running; a server not started here uses its data (process {data['pid']})"
    lines = [
        f"State     {state}",
        f"URL       {data['url']}",
        f"Folder    {data['folder']}" + ("" if data["data_major"] else " (no data yet)"),
        f"Account   {data['account']}",
        f"Programs  PostgreSQL {data['server_version']} in {data['bindir']}",
    ]
    app.finish(Result(data=data, text="\n".join(lines)))


@command.command()
@pass_app
def url(app: App) -> None:
    """Print the URL of the server's database, for psql, SQLAlchemy or --url. Starts nothing.

    JSON: `url`.
    """
    address = _data(_server(app))["url"]
    app.finish(Result(data={"url": address}, text=str(address)))


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@pass_app
def psql(app: App, arguments: tuple[str, ...]) -> None:
    """Open psql on the server's database, starting it first; ARGUMENTS go to psql.

    psql's exit code is this command's.
    """
    server = _server(app)
    server.ensure_running()
    program = str(server.installation.client("psql"))
    os.execve(program, [program, *arguments], server.environment)  # noqa: S606


@command.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_app
def reset(app: App, yes: bool) -> None:
    """Stop the server and delete its data, for good.

    JSON: `deleted`, false when there was nothing; `folder`.
    """
    server = _server(app)
    if not (yes or _agreed(f"Delete every database in {server.folder}?")):
        data = {"deleted": False, "folder": str(server.folder)}
        app.finish(Result(data=data, text="Nothing was deleted.", exit_code=ExitCode.FAILED))
    deleted = server.reset()
    text = f"Deleted {server.folder}." if deleted else "There was nothing to delete."
    app.finish(Result(data={"deleted": deleted, "folder": str(server.folder)}, text=text))


def _agreed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise UsageError("`server reset` asks first, and nobody is there to answer", hint="Add --yes.") from None
