"""The root command, its global options, and the one place where errors become exit codes."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

import click

from schema.cli.context import App, Format
from schema.cli.interrupts import no_interrupt_lost
from schema.cli.lazy import Lazy, LazyGroup
from schema.errors import ExitCode, SchemaError

COMMANDS = {
    "status": Lazy("schema.cli.status", "Show which database, its revision, what is pending, and the backfill."),
    "upgrade": Lazy("schema.cli.upgrade", "Upgrade the database to a revision."),
    "downgrade": Lazy("schema.cli.downgrade", "Downgrade the database to a revision."),
    "backfill": Lazy("schema.cli.backfill", "Give existing sessions their kernel groups."),
    "deployment": Lazy("schema.cli.deployment", "Show what a deployment request becomes."),
    "session": Lazy("schema.cli.session", "Enqueue sessions, and remove ended ones."),
    "heads": Lazy(
        "schema.cli.heads", "Show the heads of the history, and everything that is wrong with it.", (Format.GITHUB,)
    ),
    "merge": Lazy("schema.cli.merge", "Join several heads with an empty merge revision."),
    "rebase": Lazy("schema.cli.rebase", "Move an arm that nobody has run on top of the other head."),
    "lineage": Lazy("schema.cli.lineage", "Show and check the history across releases."),
    "seed": Lazy("schema.cli.seed", "Fill a database with realistic legacy sessions."),
    "drift": Lazy(
        "schema.cli.drift",
        "Compare the models, the history and the live database, three ways.",
        (Format.MARKDOWN, Format.GITHUB),
    ),
    "review": Lazy("schema.cli.review", "Say what each revision does, observed on a scratch server."),
    "server": Lazy("schema.cli.server", "Run the embedded PostgreSQL server."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": None},
)
@click.option("-c", "--config", type=click.Path(path_type=Path, dir_okay=False), help="The project's alembic.ini.")
@click.option("--url", metavar="URL", help="The database. Default: SCHEMACTL_URL, DATABASE_URL, the ini, embedded.")
@click.option(
    "--pg-bindir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="SCHEMACTL_PG_BINDIR",
    help="Make embedded and scratch servers from this installed PostgreSQL.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice([kind.value for kind in Format]),
    default="text",
    help="How data is printed.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print data and errors only.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for tracebacks.")
@click.version_option(package_name="schemactl", prog_name="schemactl")
@click.pass_context
def cli(
    ctx: click.Context,
    config: Path | None,
    url: str | None,
    pg_bindir: Path | None,
    format_: str,
    quiet: bool,
    verbose: int,
) -> None:
    """Operate the PostgreSQL schema of a GPU-cluster manager: its history, its backfill, its checks.

    Data goes to stdout, everything else to stderr.
    """
    app = ctx.ensure_object(App)
    app.config, app.url, app.pg_bindir, app.format = config, url, pg_bindir, Format(format_)
    app.verbosity = -1 if quiet else verbose


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises."""
    app = App()
    # What an output cannot encode, such as half of a surrogate pair, is escaped there, as stderr does already.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with no_interrupt_lost():
            return int(cli.main(arguments, prog_name="schemactl", standalone_mode=False, obj=app) or 0)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted.", err=True)
        return ExitCode.INTERRUPTED
    except SchemaError as error:
        return _failed(app, error)
    except BrokenPipeError:
        # The reader went away: point stdout elsewhere, or Python complains again while it shuts down.
        sys.stdout = None
        return ExitCode.FAILED
    except Exception as error:  # noqa: BLE001 - the last resort: a paragraph instead of a traceback
        return _failed(app, _translated(error))


def _failed(app: App, error: SchemaError) -> int:
    if app.verbosity >= 2:
        import traceback

        traceback.print_exception(error)
    return app.fail(error)


def _translated(error: Exception) -> SchemaError:
    from schema.pg.errors import translate

    translated = translate(error)
    if translated is None:
        translated = SchemaError(f"unexpected {type(error).__name__}: {error}", hint="-vv shows where it happened.")
    translated.__cause__ = error
    return translated
