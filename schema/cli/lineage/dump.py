"""`schemactl lineage dump`."""

from pathlib import Path

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project


@click.command("dump")
@click.option("--ref", metavar="REF", help="Dump the history of a git ref instead of the files here.")
@click.option("--name", help="What the dump calls itself. Default: the ref.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to a file.")
@pass_app
def command(app: App, ref: str | None, name: str | None, output: Path | None) -> None:
    """Write the history of a release as JSON.

    Keep it with the release: `lineage skipped --against` reads it where git does not have the release.
    """
    import json

    from schema.lineage.files import Change, write_all
    from schema.lineage.git import required
    from schema.lineage.skipped import dump

    project = Project.read(app)
    graph = required(project.repository).snapshot(ref).graph if ref else project.graph
    text = dump(graph, name or ref or "the present files")
    if output is not None:
        write_all([Change(output, output.read_bytes() if output.exists() else None, f"{text}\n".encode())])
        app.status(f"{output} written: {len(graph.revisions)} revisions.")
    app.finish(Result(data={"dump": json.loads(text), "file": output}, text="" if output else text))
