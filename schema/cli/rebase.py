"""`schemactl rebase`."""

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project, changes_data, changes_text, released_ref, urls_option, version_table


@click.command("rebase")
@click.argument("arm", required=False)
@click.option("--onto", metavar="HEAD", help="The head to move onto. Default: the only other one.")
@click.option("--base-ref", metavar="REF", help="The shared branch, which tells whose arm is whose.")
@released_ref
@urls_option("A database that must not skip anything")
@version_table
@click.option("--apply", is_flag=True, help="Write the plan.")
@pass_app
def command(
    app: App,
    arm: str | None,
    onto: str | None,
    base_ref: str | None,
    refs: tuple[str, ...],
    urls: tuple[str, ...],
    version_table: str,
    apply: bool,
) -> None:
    """Move an arm that nobody has run on top of the other head.

    ARM is a head, and moves with what only it has. Without ARM it is the arm that the shared branch does not have.
    Only `down_revision` and the `Revises:` line of its first revision change. Refused when a revision that would
    move is released or a given database is stamped at it: that database would skip what it is moved onto. Without
    --apply the plan is shown and nothing is written.
    """
    from schema.lineage.files import write_all
    from schema.lineage.rebase import choose_arm, plan_rebase

    project = Project.read(app)
    mine, other = choose_arm(project.graph, project.repository, arm, onto, base_ref)
    stamped: dict[str, list[str]] = {}
    if given := [*([app.url] if app.url else []), *urls]:
        from schema.cli.stamps import read_stamps

        stamped = read_stamps(given, version_table)
    plan = plan_rebase(
        project.graph,
        project.layout,
        mine,
        other,
        releases=project.releases(app, refs),
        stamped=stamped,
        where_is=project.where_is,
    )
    app.status(changes_text(plan.changes))
    if apply:
        write_all(plan.changes)
    moved = ", ".join(revision.id for revision in plan.moved)
    verb = ("stands" if len(plan.moved) == 1 else "stand") if apply else "would stand"
    app.finish(
        Result(
            data={
                "onto": other,
                "moved": [revision.id for revision in plan.moved],
                "relinked": [revision.id for revision in plan.relinked],
                "files": changes_data(plan.changes),
                "written": apply,
                "heads": list(plan.graph.heads),
            },
            text=f"{moved} {verb} on {other}" + ("" if apply else "; --apply writes it"),
        )
    )
