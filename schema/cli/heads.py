"""`schemactl heads`."""

from typing import TYPE_CHECKING, Any

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.project import Project, findings_code, findings_data, findings_github, findings_text

if TYPE_CHECKING:
    from schema.lineage.graph import Graph


@click.command("heads")
@click.option("--check", "thorough", is_flag=True, help="Parse every file in full, and check the HEAD file.")
@click.option("--write", is_flag=True, help="Make the HEAD file beside env.py name the one head.")
@pass_app
def command(app: App, thorough: bool, write: bool) -> None:
    """Show the heads of the history, and everything that is wrong with it.

    Ends 3 when anything is: several heads or bases, a missing parent, a cycle, and more. Reads the files without
    running them, and needs no database. The HEAD file is one line in git, so that two heads become a conflict there.
    """
    from schema.lineage.findings import check

    project = Project.read(app, thorough=thorough)
    graph = project.graph
    findings = check(graph, project.where_is)
    if write:
        _write(app, project)
    elif thorough:
        from schema.lineage.headfile import check_head_file

        findings += check_head_file(graph, project.layout.head_file)
    listed = "\n".join(_line(graph, id_) for id_ in graph.heads)
    app.finish(
        Result(
            data={
                "heads": [_data(graph, id_) for id_ in graph.heads],
                "bases": list(graph.bases),
                "revisions": len(graph.revisions),
                "findings": findings_data(findings),
            },
            text="\n".join(part for part in (listed, findings_text(findings)) if part),
            github=findings_github(findings),
            exit_code=findings_code(findings),
        )
    )


def _write(app: App, project: Project) -> None:
    from schema.lineage.files import write_all
    from schema.lineage.headfile import head_change

    head = project.graph.resolve("head").id
    changes = head_change(project.layout.head_file, head, create=True)
    write_all(changes)
    app.status(f"{project.layout.head_file} {'says' if changes else 'said already'} {head}.")


def _line(graph: "Graph", id_: str) -> str:
    labels = "".join(f" ({label})" for label in graph.revisions[id_].labels)
    return f"{id_}{labels} (head)  {graph.revisions[id_].path.name}"


def _data(graph: "Graph", id_: str) -> dict[str, Any]:
    revision = graph.revisions[id_]
    return {"id": id_, "file": str(revision.path), "title": revision.title, "labels": list(revision.labels)}
