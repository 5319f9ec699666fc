"""`schemactl lineage show`."""

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project


@click.command("show")
@click.option(
    "--as", "style", type=click.Choice(["text", "mermaid", "dot"]), default="text", help="How the graph is drawn."
)
@click.option("--ref", metavar="REF", help="Show the history of a git ref instead of the files here.")
@pass_app
def command(app: App, style: str, ref: str | None) -> None:
    """Draw the history for a terminal, or as Mermaid or DOT.

    In a terminal the newest revision comes first; a document has the base at the bottom.
    """
    from schema.lineage.git import required
    from schema.lineage.render import as_dot, as_mermaid, as_text

    project = Project.read(app)
    graph = required(project.repository).snapshot(ref).graph if ref else project.graph
    drawn = {"text": as_text, "mermaid": as_mermaid, "dot": as_dot}[style](graph)
    app.finish(
        Result(
            data={
                "heads": list(graph.heads),
                "revisions": [
                    {
                        "id": revision.id,
                        "down_revision": list(revision.parents),
                        "depends_on": list(revision.depends_on),
                        "branch_labels": list(revision.labels),
                        "title": revision.title,
                        "file": str(revision.path),
                    }
                    for revision in graph.ordered()
                ],
            },
            text=drawn,
            markdown=f"```mermaid\n{as_mermaid(graph)}\n```",
        )
    )
