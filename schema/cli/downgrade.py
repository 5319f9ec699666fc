"""`schemactl downgrade`."""

from datetime import datetime

import click

from schema.cli.context import App, pass_app
from schema.cli.database import project, target
from schema.cli.upgrade import dry, dry_run_option, result, say, until_time_option, yes_option


# -1 is a number of steps, not an option.
@click.command("downgrade", context_settings={"ignore_unknown_options": True})
@click.argument("revision", metavar="REV")
@yes_option
@dry_run_option
@until_time_option
@pass_app
def command(app: App, revision: str, yes: bool, dry_run: bool, until_time: datetime | None) -> None:
    """Downgrade the database to a revision.

    REV is an id, the beginning of one, `base`, or a number of steps such as -1. What a downgrade loses is in the
    revision's file. Each revision is committed before the next begins. Ends 3 when REV is ambiguous or would leave
    several version rows, and 4 when the time is up.
    """
    from schema.migrate.runner import Options, downgrade

    of = project(app)
    where = target(app, of)
    if dry_run:
        app.finish(dry(of, where, revision, is_upgrade=False, yes=yes))
    run = downgrade(
        of,
        where,
        revision,
        options=Options(yes, until_time),
        on_step=lambda step: say(app, "Downgrading from", step),
        report=app.status,
    )
    app.finish(result(run, where, "Downgraded"))
