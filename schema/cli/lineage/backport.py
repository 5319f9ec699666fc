"""`schemactl lineage backport`."""

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project, changes_data, changes_text, released_ref


@click.command("backport")
@click.argument("fix", metavar="FIX")
@click.option("--at", "point", metavar="REF|REVISION", required=True, help="The release, or its head revision.")
@click.option("--rev-id", metavar="ID", help="Id of the copy; random by default.")
@released_ref
@click.option("--apply", is_flag=True, help="Write the plan.")
@pass_app
def command(app: App, fix: str, point: str, rev_id: str | None, refs: tuple[str, ...], apply: bool) -> None:
    """Put a copy of a fix at an old release's point.

    FIX is the newest revision; its copy stands right above the release's head. A database of that release runs the
    copy; one beyond it runs FIX; a new one runs both, so FIX has to be idempotent. Without --apply the plan is
    shown and nothing is written.
    """
    from schema.lineage.backport import plan_backport, release_point
    from schema.lineage.files import write_all

    project = Project.read(app)
    plan = plan_backport(
        project.graph,
        project.graph.resolve(fix).id,
        release_point(project.graph, project.repository, point),
        releases=project.releases(app, refs),
        identity=rev_id,
    )
    app.status(changes_text(plan.changes))
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
            },
            text=f"{plan.copy.id}, a copy of {plan.fix.id}, {'stands' if apply else 'would stand'} between "
            f"{plan.point} and {above}" + ("" if apply else "; --apply writes it"),
        )
    )
