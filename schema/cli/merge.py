"""`schemactl merge`."""

from collections.abc import Mapping
from typing import Any

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project, changes_data, changes_text


@click.command("merge")
@click.argument("revisions", metavar="[REVISION]...", nargs=-1)
@click.option("-m", "--message", default="", help="First line of the docstring, and the file's name.")
@click.option("--rev-id", metavar="ID", help="Id of the merge revision; random by default.")
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@pass_app
def command(app: App, revisions: tuple[str, ...], message: str, rev_id: str | None, dry_run: bool) -> None:
    """Join several heads with an empty merge revision.

    All heads, or the REVISIONs named. Nothing is moved, so no database ever skips anything. The file is made from
    the project's script.py.mako, and a HEAD file that the project keeps is updated with it.
    """
    from schema.lineage.files import write_all
    from schema.lineage.merge import plan_merge

    project = Project.read(app)
    template_file = project.layout.script_location / "script.py.mako"
    plan = plan_merge(
        project.graph,
        project.layout,
        [project.graph.resolve(text).id for text in revisions],
        message=message,
        identity=rev_id,
        template=(lambda variables: _rendered(str(template_file), variables)) if template_file.is_file() else None,
    )
    for one, other, table in plan.shared_tables:
        app.status(f"Warning: the arms of {one} and {other} may both change {table}; read them side by side.")
    app.status(changes_text(plan.changes))
    if not dry_run:
        write_all(plan.changes)
    done = "would merge" if dry_run else "merges"
    app.finish(
        Result(
            data={
                "revision": plan.revision.id,
                "parents": list(plan.revision.parents),
                "files": changes_data(plan.changes),
                "written": not dry_run,
                "heads": list(plan.heads_after),
                "shared_tables": [{"heads": [one, other], "table": table} for one, other, table in plan.shared_tables],
            },
            text=f"{plan.revision.id} {done} {', '.join(plan.revision.parents)}: {plan.revision.path}",
        )
    )


def _rendered(template_file: str, variables: Mapping[str, Any]) -> str:
    from mako.exceptions import MakoException  # type: ignore[import-untyped]
    from mako.template import Template  # type: ignore[import-untyped]

    from schema.errors import ConfigError

    try:
        return str(Template(filename=template_file).render_unicode(**variables))  # noqa: S702 - Python, not HTML
    except (MakoException, NameError, TypeError, AttributeError) as error:
        raise ConfigError(f"{template_file} cannot be rendered: {error}") from error
