"""`schemactl lineage integrity`."""

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import (
    Project,
    changes_data,
    findings_code,
    findings_data,
    findings_github,
    findings_text,
    released_ref,
)
from schema.errors import UsageError


@click.command("integrity")
@released_ref
@click.option("--record", is_flag=True, help="Add the released revisions that the ledger lacks.")
@click.option("--accept", "accepted", metavar="REVISION", help="Take today's content of an edited revision as right.")
@click.option("--reason", metavar="TEXT", help="Why; kept in the ledger.")
@pass_app
def command(app: App, refs: tuple[str, ...], record: bool, accepted: str | None, reason: str | None) -> None:
    """Find released revisions that were edited.

    That is: their link, upgrade or downgrade changed, or their file is gone. Comments, docstrings and layout don't
    count. What was released is in the committed ledger, integrity.json beside env.py, and for revisions that it
    lacks in git. Ends 3 when there are any.
    """
    from schema.lineage.files import write_all
    from schema.lineage.integrity import Ledger, accept, expected, verify

    if (accepted is None) is not (reason is None) or (reason is not None and not reason.strip()):
        raise UsageError("--accept and --reason go together", hint="Say which revision, and why it had to be edited.")
    project = Project.read(app)
    ledger = Ledger.read(project.layout.ledger)
    entries = expected(ledger, project.releases(app, refs))
    changes = []
    known = set(entries if record else ledger.entries)
    if accepted is not None and reason is not None:
        id_ = project.graph.resolve(accepted).id
        entries = accept(project.graph, entries, id_, reason.strip())
        changes = ledger.change(entries if record else {**ledger.entries, id_: entries[id_]})
        known = known | {id_}
    elif record:
        changes = ledger.change(entries)
    write_all(changes)
    for change in changes:
        app.status(f"{change.path} written.")
    if new := len(entries.keys() - known):
        app.detail(f"{new} released revisions are not in {ledger.path} yet; --record adds them.")
    findings = verify(project.graph, entries)
    app.finish(
        Result(
            data={
                "released": len(entries),
                "unrecorded": new,
                "findings": findings_data(findings),
                "files": changes_data(changes),
            },
            text=findings_text(findings) or f"{len(entries)} released revisions are as they were released",
            github=findings_github(findings),
            exit_code=findings_code(findings),
        )
    )
