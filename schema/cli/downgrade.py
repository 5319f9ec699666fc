"""`schemactl downgrade`."""

import click

from schema.cli.context import App, pass_app
from schema.cli.database import project, target
from schema.cli.upgrade import result, say


# -1 is a number of steps, not an option.
@click.command("downgrade", context_settings={"ignore_unknown_options": True})
@click.argument("revision", metavar="REV")
@pass_app
def command(app: App, revision: str) -> None:
    """Downgrade the database to a revision.

    REV is an id, the beginning of one, `base`, or a number of steps such as -1. What a downgrade loses is in the
    revision's file. Each revision is committed before the next begins.
    """
    from schema.migrate.runner import downgrade

    of = project(app)
    where = target(app, of)
    run = downgrade(of, where, revision, on_step=lambda step: say(app, "Downgrading from", step), report=app.status)
    app.finish(result(run, where, "Downgraded"))
