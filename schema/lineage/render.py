"""A graph for people: lines for a terminal, Mermaid and DOT for documents."""

from collections.abc import Mapping

from schema.lineage.graph import Graph


def as_text(graph: Graph, marks: Mapping[str, str] | None = None) -> str:
    """One line per revision, newest first, lanes at the left; `marks` adds words to some ids."""
    lines: list[str] = []
    lanes: list[str] = []
    for revision in reversed(graph.ordered()):
        mine = [index for index, waiting in enumerate(lanes) if waiting == revision.id]
        if not mine:
            lanes.append(revision.id)
            mine = [len(lanes) - 1]
        column = mine[0]
        row = "".join("* " if index == column else "/ " if index in mine else "| " for index in range(len(lanes)))
        # The lanes that met here end; the first goes on to the parents.
        lanes = [waiting for index, waiting in enumerate(lanes) if index == column or index not in mine]
        parents = list(dict.fromkeys(revision.parents))
        lanes[column : column + 1] = parents
        words = [revision.id, *_words(graph, revision.id, marks or {})]
        lines.append(f"{row}{' '.join(words)}  {revision.title}".rstrip())
        if len(parents) > 1:
            lines.append(("| " * column + "|" + "\\ " * (len(parents) - 1)).rstrip())
    return "\n".join(lines)


def _words(graph: Graph, id_: str, marks: Mapping[str, str]) -> list[str]:
    revision = graph.revisions[id_]
    words = []
    if id_ in graph.heads:
        words.append("(head)")
    if len(revision.parents) > 1:
        words.append("(merge)")
    if len(graph.children.get(id_, ())) > 1:
        words.append("(branch point)")
    words += [f"[{label}]" for label in revision.labels]
    words += [f"(needs {name})" for name in revision.depends_on]
    words += [f"(missing parent {parent})" for parent in revision.parents if parent not in graph.revisions]
    if id_ in marks:
        words.append(f"({marks[id_]})")
    return words


def as_mermaid(graph: Graph) -> str:
    """A Mermaid flowchart, base at the bottom."""
    names = _names(graph)
    lines = ["flowchart BT"]
    lines += [
        f'    {names[revision.id]}["{_escaped(_label(revision.id, revision.title), "#quot;", "<br>")}"]'
        for revision in graph.ordered()
    ]
    lines += [
        f'    {names[id_]}["{_escaped(id_, "#quot;", "")} (no file)"]' for id_ in names if id_ not in graph.revisions
    ]
    lines += [f"    {names[below]} {arrow} {names[above]}" for below, above, arrow in _edges(graph, "-->", "-.->")]
    return "\n".join(lines)


def as_dot(graph: Graph) -> str:
    """A Graphviz digraph, base at the bottom."""
    names = _names(graph)
    lines = ["digraph lineage {", "    rankdir=BT;", "    node [shape=box];"]
    for revision in graph.ordered():
        label = _escaped(_label(revision.id, revision.title).replace("\\", "\\\\"), '\\"', "\\n")
        lines.append(f'    {names[revision.id]} [label="{label}"];')
    for id_ in names:
        if id_ not in graph.revisions:
            label = _escaped(id_.replace("\\", "\\\\"), '\\"', "")
            lines.append(f'    {names[id_]} [label="{label} (no file)", style=dotted];')
    for below, above, style in _edges(graph, "", " [style=dashed]"):
        lines.append(f"    {names[below]} -> {names[above]}{style};")
    return "\n".join([*lines, "}"])


def _names(graph: Graph) -> dict[str, str]:
    """Identifiers that both languages take, whatever the ids hold."""
    ids = [revision.id for revision in graph.ordered()]
    ids += sorted({name for id_ in graph.revisions for name in _all_below(graph, id_)} - set(ids))
    return {id_: f"r{number}" for number, id_ in enumerate(ids)}


def _all_below(graph: Graph, id_: str) -> tuple[str, ...]:
    return (*graph.revisions[id_].parents, *graph.dependencies(id_))


def _edges(graph: Graph, parent: str, dependency: str) -> list[tuple[str, str, str]]:
    edges = []
    for revision in graph.ordered():
        edges += [(below, revision.id, parent) for below in dict.fromkeys(revision.parents)]
        edges += [(below, revision.id, dependency) for below in dict.fromkeys(graph.dependencies(revision.id))]
    return edges


def _label(id_: str, title: str) -> str:
    return f"{id_}\n{title}" if title else id_


def _escaped(text: str, quote: str, newline: str) -> str:
    return text.replace('"', quote).replace("\n", newline)
