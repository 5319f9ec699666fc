"""`schemactl upgrade`, and what `downgrade` shares with it."""

from typing import TYPE_CHECKING

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import project, target

if TYPE_CHECKING:
    from schema.migrate.runner import Run, Step
    from schema.pg.target import Target


@click.command("upgrade")
@click.argument("revision", metavar="[REV]", default="head")
@pass_app
def command(app: App, revision: str) -> None:
    """Upgrade the database to a revision.

    REV is an id, the beginning of one, `head` (the default), or a number of steps such as +1. Each revision is
    committed before the next begins. Another run on the same database is waited for.
    """
    from schema.migrate.runner import upgrade

    of = project(app)
    where = target(app, of)
    run = upgrade(of, where, revision, on_step=lambda step: say(app, "Upgrading to", step), report=app.status)
    app.finish(result(run, where, "Upgraded"))


def say(app: App, doing: str, step: "Step") -> None:
    """Tell of a revision: before it runs and, with the time it took, when it is committed."""
    count = f"[{step.number}/{step.total}]"
    if step.seconds is None:
        app.status(f"{count} {doing} {step.revision}")
    else:
        app.status(f"{count} done in {step.seconds:.2f} s")


def result(run: "Run", where: "Target", did: str) -> Result:
    """What a run did, for people and as JSON."""
    before, after = (", ".join(heads) or "base" for heads in (run.before, run.after))
    if run.steps:
        count = f"{len(run.steps)} revision{'s' if len(run.steps) > 1 else ''}"
        text = f"{did} from {before} to {after}: {count} in {run.seconds:.1f} s."
    else:
        text = f"Nothing to do: the database is at {after}."
    data = {
        "database": {"url": where.masked, "source": where.source},
        "before": run.before,
        "after": run.after,
        "seconds": round(run.seconds, 3),
        "revisions": [
            {"revision": step.revision.id, "title": step.revision.title, "seconds": round(step.seconds or 0, 3)}
            for step in run.steps
        ],
    }
    return Result(data, text)
