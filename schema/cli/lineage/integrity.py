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
@click.option(
    "--accept", "accepted", metavar="REVISION", multiple=True, help="Take an edited revision as right; repeatable."
)
@click.option("--reason", metavar="TEXT", help="Why; kept in the ledger.")
@pass_app
def command(app: App, refs: tuple[str, ...], record: bool, accepted: tuple[str, ...], reason: str | None) -> None:
    """Find released revisions that were edited.

    That is: their link, upgrade or downgrade changed, or their file is gone. Comments, docstrings and layout don't
    count. What was released is in the committed ledger, integrity.json beside env.py, and for revisions that it
    lacks in git. Ends 3 when there are any.
    """
    from schema.lineage.files import write_all
    from schema.lineage.integrity import Ledger, accept, expected, verify

    if bool(accepted) is not bool(reason and reason.strip()):
        raise UsageError("--accept and --reason go together", hint="Say which revision, and why it had to be edited.")
    project = Project.read(app)
    ledger = Ledger.read(project.layout.ledger)
    entries = expected(ledger, project.releases(app, refs))
    ids = [project.graph.resolve(text).id for text in accepted]
    for id_ in ids:
        entries = accept(project.graph, entries, id_, (reason or "").strip())
    kept = entries if record else {**ledger.entries, **{id_: entries[id_] for id_ in ids}}
    changes = ledger.change(kept) if record or ids else []
    write_all(changes)
    for change in changes:
        app.status(f"{change.path} written.")
    if new := len(entries) - len(kept):
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
