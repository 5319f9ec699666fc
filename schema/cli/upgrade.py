"""`schemactl upgrade`, and what `downgrade` shares with it."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import project, target
from schema.errors import ExitCode

if TYPE_CHECKING:
    from schema.migrate.project import Project
    from schema.migrate.runner import Run, Step
    from schema.pg.target import Target


class Moment(click.ParamType[datetime]):
    """A time of day, the next such one, or a date and time; local unless it says otherwise."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read it."""
        if isinstance(value, datetime):
            return value
        now = datetime.now().astimezone()
        try:
            if len(value) <= 8:
                moment = datetime.fromisoformat(f"{now.date()}T{value}").astimezone()
                return moment if moment > now else moment + timedelta(days=1)
            return datetime.fromisoformat(value).astimezone()
        except ValueError:
            self.fail(f"{value!r} is no time such as 04:30 or 2026-01-31T04:30", param, ctx)


yes_option = click.option("--yes", is_flag=True, help="Go on where the plan is refused: see docs/lineage.md.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Print the SQL that would run; change nothing.")
until_time_option = click.option(
    "--until-time", type=Moment(), metavar="TIME", help="Begin no revision after this: 04:30, or 2026-01-31T04:30."
)


@click.command("upgrade")
@click.argument("revision", metavar="[REV]", default="head")
@yes_option
@dry_run_option
@until_time_option
@click.option("--missing", is_flag=True, help="First run what came in below the database's revision.")
@click.option("--released-ref", "refs", metavar="REF", multiple=True, help="The release it came by; repeatable.")
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A `lineage dump` of the release it came by.",
)
@pass_app
def command(
    app: App,
    revision: str,
    yes: bool,
    dry_run: bool,
    until_time: datetime | None,
    missing: bool,
    refs: tuple[str, ...],
    against: Path | None,
) -> None:
    """Upgrade the database to a revision.

    REV is an id, the beginning of one, `head` (the default), or a number of steps such as +1. Each revision is
    committed before the next begins. Another run on the same database is waited for, and a lock that is not to be
    had is tried again. Ends 3 when the plan is refused, because it would skip revisions or leave several version
    rows, and 4 when the time is up.
    """
    from schema.lineage.skipped import read_dump
    from schema.migrate.missing import Sources
    from schema.migrate.runner import Options, upgrade

    of = project(app)
    where = target(app, of)
    if dry_run:
        app.finish(dry(of, where, revision, is_upgrade=True, yes=yes))
    sources = Sources(read_dump(against) if against else None, refs)
    run = upgrade(
        of,
        where,
        revision,
        options=Options(yes, until_time, missing, sources),
        on_step=lambda step: say(app, "Upgrading to", step),
        report=app.status,
    )
    app.finish(result(run, where, "Upgraded"))


def dry(of: "Project", where: "Target", revision: str, *, is_upgrade: bool, yes: bool) -> Result:
    """The SQL that a run would execute."""
    from schema.migrate.runner import script

    text = script(of, where, revision, is_upgrade=is_upgrade, yes=yes)
    return Result({"database": {"url": where.masked, "source": where.source}, "sql": text}, text.rstrip("\n"))


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
        text = f"Nothing {'begun' if run.left else 'to do'}: the database is at {after}."
    if run.left:
        text += f" Time is up, with {len(run.left)} left: {', '.join(revision.id for revision in run.left)}."
    data = {
        "database": {"url": where.masked, "source": where.source},
        "before": run.before,
        "after": run.after,
        "seconds": round(run.seconds, 3),
        "revisions": [
            {"revision": step.revision.id, "title": step.revision.title, "seconds": round(step.seconds or 0, 3)}
            for step in run.steps
        ],
        "left": [revision.id for revision in run.left],
    }
    return Result(data, text, ExitCode.MORE_WORK if run.left else ExitCode.OK)
