"""`schemactl lineage skipped`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project, released_ref, urls_option, version_table
from schema.errors import ExitCode

if TYPE_CHECKING:
    from schema.lineage.skipped import Skipped


@click.command("skipped")
@released_ref
@urls_option("A database to answer for")
@version_table
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A `lineage dump` of the release that the databases come from.",
)
@pass_app
def command(app: App, refs: tuple[str, ...], urls: tuple[str, ...], version_table: str, against: Path | None) -> None:
    """Name the revisions that an upgrade would never run.

    Asked for each release and each given database. Such revisions came in below a head that was released, or below
    a database's stamp, after it was set. Ends 3 when there are any.
    """
    from schema.lineage.skipped import answers, read_dump

    project = Project.read(app)
    dump = read_dump(against) if against else None
    stamped: dict[str, list[str]] = {}
    if given := [*([app.url] if app.url else []), *urls]:
        from schema.cli.stamps import read_stamps

        stamped = read_stamps(given, version_table)
    releases = [] if dump and not refs else project.releases(app, refs)
    found = answers(project.graph, releases, stamped, dump, project.repository)
    app.finish(
        Result(
            data={"answers": [_data(answer) for answer in found]},
            text="\n".join(_text(answer) for answer in found),
            exit_code=ExitCode.OK if all(answer.clean for answer in found) else ExitCode.FINDINGS,
        )
    )


def _data(answer: "Skipped") -> dict[str, Any]:
    return {
        "subject": answer.subject,
        "stamped": list(answer.stamped),
        "history": answer.then,
        "skipped": [{"id": revision.id, "file": str(revision.path)} for revision in answer.revisions],
        "covered": [{"id": revision.id, "by": original} for revision, original in answer.covered],
        "unknown": [{"id": id_, "ref": ref} for id_, ref in answer.unknown],
    }


def _text(answer: "Skipped") -> str:
    stamp = ", ".join(answer.stamped) or "nothing"
    source = "" if answer.then == answer.subject else f", if it got there with {answer.then}"
    title = f"{answer.subject} (at {stamp}{source})"
    lines = [f"{title}: {'nothing is skipped' if answer.clean else 'NOT CLEAN'}"]
    lines += [f"  never run: {revision.id}  {revision.path.name}" for revision in answer.revisions]
    lines += [f"  covered:   {revision.id} by {original}" for revision, original in answer.covered]
    lines += [f"  unknown:   {id_} has no file here; {_where(ref)}" for id_, ref in answer.unknown]
    return "\n".join(lines)


def _where(ref: str | None) -> str:
    return f"it is in {ref}" if ref else "no git ref has it"
