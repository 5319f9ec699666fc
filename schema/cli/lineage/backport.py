"""`schemactl lineage backport`."""

from typing import TYPE_CHECKING

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project, changes_data, changes_text, released_ref
from schema.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schema.lineage.backport import Backport
    from schema.lineage.git import Snapshot
    from schema.migrate.prove import Proof

FIX_HINT = "write the fix so that running it twice, and in either place, does the same."


@click.command("backport")
@click.argument("fix", metavar="FIX")
@click.option("--at", "point", metavar="REF|REVISION", required=True, help="The release, or its head revision.")
@click.option("--rev-id", metavar="ID", help="Id of the copy; random by default.")
@released_ref
@click.option("--prove/--no-prove", default=True, help="Try it on a scratch server first; the default.")
@click.option("--apply", is_flag=True, help="Write the plan.")
@pass_app
def command(
    app: App, fix: str, point: str, rev_id: str | None, refs: tuple[str, ...], prove: bool, apply: bool
) -> None:
    """Put a copy of a fix at an old release's point.

    FIX is the newest revision; its copy stands right above the release's head. A database of that release runs the
    copy; one beyond it runs FIX; a new one runs both, so FIX has to be idempotent. That is tried out: a database
    of each release and an empty one are brought to the head on a scratch server, and must end in the same schema,
    else it ends 6 and nothing is written. Without --apply the plan is shown and nothing is written.
    """
    from schema.lineage.backport import plan_backport, release_point
    from schema.lineage.files import write_all

    project = Project.read(app)
    releases = project.releases(app, refs)
    plan = plan_backport(
        project.graph,
        project.graph.resolve(fix).id,
        release_point(project.graph, project.repository, point),
        releases=releases,
        identity=rev_id,
    )
    app.status(changes_text(plan.changes))
    proofs = _proofs(app, project, plan, releases) if prove else []
    bad = [proof for proof in proofs if proof.differences]
    apply = apply and not bad
    if apply:
        write_all(plan.changes)
    above = ", ".join(revision.id for revision in plan.relinked)
    app.finish(
        Result(
            data={
                "fix": plan.fix.id,
                "copy": plan.copy.id,
                "point": plan.point,
                "relinked": [revision.id for revision in plan.relinked],
                "files": changes_data(plan.changes),
                "written": apply,
                "heads": list(plan.graph.heads),
                "proofs": [{"from": proof.way, "differences": list(proof.differences)} for proof in proofs],
            },
            exit_code=ExitCode.MISMATCH if bad else ExitCode.OK,
            text="\n".join(line for proof in bad for line in proof.differences)
            + (f"\nNothing was written: {FIX_HINT}\n" if bad else "")
            + f"{plan.copy.id}, a copy of {plan.fix.id}, {'stands' if apply else 'would stand'} between "
            f"{plan.point} and {above}" + ("" if apply else "; --apply writes it"),
        )
    )


def _proofs(app: App, project: Project, plan: "Backport", releases: "Sequence[Snapshot]") -> "list[Proof]":
    """Every release that has the point, or the point alone, and an empty database: all to the head."""
    from schema.migrate.prove import prove

    changed = {change.path: change.after for change in plan.changes}
    files = {
        revision.path.name: changed.get(revision.path) or revision.path.read_bytes() for revision in plan.graph.files
    }
    starts = {
        snapshot.ref: {snapshot.graph.revisions[id_].path.name: content for id_, content in snapshot.contents.items()}
        for snapshot in releases
        if plan.point in snapshot.graph.revisions
    }
    if not starts:
        below = plan.graph.ancestors([plan.point])
        starts[plan.point] = {
            plan.graph.revisions[id_].path.name: plan.graph.revisions[id_].path.read_bytes() for id_ in below
        }
    proofs = prove(project.layout.config, files, starts, pg_bindir=app.pg_bindir)
    for proof in proofs:
        app.status(
            f"{proof.way} to head and empty to head {'DIFFER' if proof.differences else 'end in the same schema'}."
        )
    return proofs
