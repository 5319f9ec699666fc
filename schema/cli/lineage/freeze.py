"""`schemactl lineage freeze`."""

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import changes_data, changes_text, layout_of


@click.command("freeze")
@click.argument("version")
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@pass_app
def command(app: App, version: str, dry_run: bool) -> None:
    """Write a release's version into its new revisions.

    VERSION replaces the placeholder in every `# Part of: NEXT_RELEASE_VERSION` line.
    """
    from schema.lineage.files import write_all
    from schema.lineage.freeze import plan_freeze

    changes = plan_freeze(layout_of(app), version)
    app.status(changes_text(changes))
    if not dry_run:
        write_all(changes)
    app.finish(
        Result(
            data={"frozen_as": version, "files": changes_data(changes), "written": not dry_run},
            text=f"{len(changes)} revisions {'would be' if dry_run else 'are'} part of {version}",
        )
    )
