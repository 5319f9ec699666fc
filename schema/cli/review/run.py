"""`schemactl review run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schema.cli.context import App, Format, Result, pass_app
from schema.cli.database import project
from schema.cli.interrupts import terminated_like_interrupted
from schema.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from schema.migrate.project import Project, Revision
    from schema.review.accept import Settings
    from schema.review.estimate import Production
    from schema.review.review import Filler, Review

SESSIONS = 50
"""Sessions that this project's own tables are seeded with."""


@click.command("run")
@click.argument("which", metavar="[REV | FROM:TO]", required=False)
@click.option("--since", metavar="GITREF", help="Review the revisions that this git ref does not have.")
@click.option("--latest", metavar="N", type=click.IntRange(min=1), help="Review the newest N revisions.")
@click.option("--stats", metavar="URL|FILE", help="Production's sizes and roles: its URL, only read, or a file.")
@click.option("--no-reverse", is_flag=True, help="Do not take each revision down and up again.")
@click.option(
    "--scratch-url",
    envvar="SCHEMACTL_SCRATCH_URL",
    metavar="URL",
    help="Make scratch databases on this server (it needs CREATEDB) and not on one of our own.",
)
@click.option(
    "--scratch-template",
    metavar="URL",
    help="Begin with a copy of this database, such as a staging one, made beside it; it is not changed itself.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to this file and not to stdout.",
)
@pass_app
def command(
    app: App,
    which: str | None,
    since: str | None,
    latest: int | None,
    stats: str | None,
    no_reverse: bool,
    scratch_url: str | None,
    scratch_template: str | None,
    output: Path | None,
) -> None:
    """Run revisions on a scratch server and say what a DBA must know.

    FROM:TO reviews what comes after FROM up to TO. Revisions chosen so are taken as one deployment: what one creates
    is nothing old for the next. Without a choice every revision is reviewed as if deployed alone.

    Exit code 3 when there are findings at or above the threshold ([tool.schemactl.review] in pyproject.toml), and 1
    when a revision could not be reviewed.
    """
    from schema.review import report
    from schema.review.accept import read_settings
    from schema.review.page import render
    from schema.review.review import Request, review
    from schema.review.rules import RULES

    if sum(choice is not None for choice in (which, since, latest)) > 1:
        raise UsageError("REV, --since and --latest choose revisions in different ways", hint="Give one of them.")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"{output} cannot be written: there is no folder {output.absolute().parent}")
    of = project(app)
    settings = read_settings(of.ini, [rule.id for rule in RULES])
    production = _production(stats)
    chosen = _chosen(of, which, since, latest)
    request = Request(
        project=of,
        revisions=chosen,
        together=bool(which or since or latest),
        scratch_url=scratch_url,
        scratch_template=scratch_template,
        pg_bindir=app.pg_bindir,
        filler=own_rows(of),
        sizes=None if production is None else production.sizes,
        roles=() if production is None else production.roles,
        rules=tuple(rule for rule in RULES if rule.id not in settings.disabled),
        reverse=not no_reverse,
        offline=settings.offline,
        report=app.status,
    )
    # So that what is on the scratch server goes, also when a job is stopped.
    with terminated_like_interrupted():
        found = review(request)
    if output is not None:
        app.status(report.summary(found))
    app.finish(
        Result(
            report.as_data(found),
            report.as_text(found),
            _exit_code(found, settings),
            markdown=report.as_markdown(found),
            github=report.as_github(found),
            html=render(found) if app.format is Format.HTML else None,
        ),
        output,
    )


def _exit_code(found: "Review", settings: "Settings") -> ExitCode:
    if any(finding.severity >= settings.threshold for finding in found.findings):
        return ExitCode.FINDINGS
    # Not green: a revision that was asked for was not reviewed.
    return ExitCode.FAILED if found.faults else ExitCode.OK


def _chosen(of: "Project", which: str | None, since: str | None, latest: int | None) -> "tuple[Revision, ...]":
    everything = of.pending(())
    if latest is not None:
        return everything[-latest:]
    if since is not None:
        known = _revisions_at(of, since)
        return tuple(each for each in everything if each.id not in known)
    if which is None:
        return everything
    below, colon, above = which.partition(":")
    if not colon:
        return (of.revision(which),)
    start = of.revision(below).id if below not in {"", "base"} else None
    end = of.revision(above or "head").id
    # iterate_revisions checks that the one leads to the other.
    ids = {each.revision for each in of.script.iterate_revisions(end, start or "base")} - {start}
    return tuple(each for each in everything if each.id in ids)


def _revisions_at(of: "Project", ref: str) -> set[str]:
    from schema.lineage.git import Repository, required
    from schema.lineage.layout import read_layout

    return set(required(Repository.around(read_layout(of.ini))).snapshot(ref).graph.revisions)


def _production(stats: str | None) -> "Production | None":
    from schema.pg.target import Target
    from schema.review.estimate import load_production, read_production

    if stats is None:
        return None
    return read_production(Target.parse(stats, "--stats")) if "://" in stats else load_production(Path(stats))


def own_rows(of: "Project") -> "Filler | None":
    """What writes this project's own rows, from its seed; None for any other project."""
    from schema.migrate.project import own_config

    if of.ini.resolve() != own_config().resolve():
        return None
    from schema.seed import seed

    def write(connection: Any) -> None:
        there = connection.execute("SELECT to_regclass('public.sessions') IS NOT NULL").fetchone()[0]
        if there and connection.execute("SELECT NOT EXISTS (SELECT FROM public.domains)").fetchone()[0]:
            seed(connection, sessions=SESSIONS)

    return write
