"""Revision files as one graph: heads, bases, ancestors, and finding a revision by what a person types."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from schema.errors import ExitCode, RevisionError
from schema.lineage.layout import Layout
from schema.lineage.source import Revision, UnreadableError, parse


class AmbiguousRevisionError(RevisionError):
    """What was typed stands for more than one revision."""

    exit_code: ClassVar[ExitCode] = ExitCode.FINDINGS


@dataclass(frozen=True)
class Graph:
    """All revisions of a project. Of two files with one id the later one stands in `revisions`, as in Alembic."""

    files: tuple[Revision, ...]
    """Every readable file, duplicates included."""
    unreadable: tuple[UnreadableError, ...] = field(default=(), compare=False)

    @cached_property
    def revisions(self) -> dict[str, Revision]:
        """Revisions by id."""
        return {revision.id: revision for revision in self.files}

    @cached_property
    def labels(self) -> dict[str, str]:
        """Branch labels and the id of the revision that carries each."""
        return {label: revision.id for revision in self.files for label in revision.labels}

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """Ids by parent; parents that have no file are keys too."""
        children: dict[str, list[str]] = {}
        for revision in self.revisions.values():
            for parent in dict.fromkeys(revision.parents):
                children.setdefault(parent, []).append(revision.id)
        return children

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Ids that are nobody's `down_revision`, sorted; what `alembic heads` names."""
        return tuple(sorted(id_ for id_ in self.revisions if id_ not in self.children))

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """Ids without a `down_revision`, sorted."""
        return tuple(sorted(revision.id for revision in self.revisions.values() if not revision.parents))

    @cached_property
    def positions(self) -> dict[str, int]:
        """Place of each id in `ordered()`: ancestors have lower ones."""
        return {revision.id: place for place, revision in enumerate(self.ordered())}

    def dependencies(self, id_: str) -> tuple[str, ...]:
        """The ids that a revision's `depends_on` stands for, labels resolved."""
        return tuple(self.labels.get(name, name) for name in self.revisions[id_].depends_on)

    def ancestors(self, ids: Iterable[str], *, dependencies: bool = True) -> set[str]:
        """The given ids and everything below them; ids without a file are left out.

        What a database stamped at `ids` takes as applied.
        """
        seen: set[str] = set()
        waiting = list(ids)
        while waiting:
            id_ = waiting.pop()
            if id_ in seen or id_ not in self.revisions:
                continue
            seen.add(id_)
            waiting += self.revisions[id_].parents
            if dependencies:
                waiting += self.dependencies(id_)
        return seen

    def descendants(self, ids: Iterable[str]) -> set[str]:
        """The given ids and everything that stands on them, dependents included."""
        standing: dict[str, list[str]] = {}
        for id_, revision in self.revisions.items():
            for below in (*revision.parents, *self.dependencies(id_)):
                standing.setdefault(below, []).append(id_)
        seen: set[str] = set()
        waiting = [id_ for id_ in ids if id_ in self.revisions]
        while waiting:
            id_ = waiting.pop()
            if id_ not in seen:
                seen.add(id_)
                waiting += standing.get(id_, ())
        return seen

    def ordered(self, ids: Collection[str] | None = None) -> list[Revision]:
        """Revisions from base to head, each after its parents and dependencies; revisions of a cycle come last."""
        wanted = set(self.revisions if ids is None else ids) & self.revisions.keys()
        below = {id_: [*self.revisions[id_].parents, *self.dependencies(id_)] for id_ in wanted}
        missing = {id_: sum(1 for parent in set(below[id_]) if parent in wanted) for id_ in wanted}
        above: dict[str, list[str]] = {}
        for id_, parents in below.items():
            for parent in set(parents):
                above.setdefault(parent, []).append(id_)
        waiting = sorted((id_ for id_, count in missing.items() if count == 0), reverse=True)
        done: list[str] = []
        while waiting:
            id_ = waiting.pop()
            done.append(id_)
            free = []
            for child in above.get(id_, ()):
                missing[child] -= 1
                if missing[child] == 0:
                    free.append(child)
            # Depth first, so that an arm is listed in one piece.
            waiting += sorted(free, reverse=True)
        done += sorted(wanted - set(done))
        return [self.revisions[id_] for id_ in done]

    def resolve(self, text: str) -> Revision:
        """Find a revision by its id, a branch label, `head`, or the beginning of an id, as Alembic does.

        Raises:
            AmbiguousRevisionError: several ids begin so, or there are several heads; the candidates are named.
            RevisionError: nothing is named so.
        """
        if text == "head":
            if len(self.heads) == 1:
                return self.revisions[self.heads[0]]
            raise AmbiguousRevisionError(
                f"head is ambiguous: {_listed(self, self.heads)}", hint="Name one, or run `schemactl merge`."
            )
        found = self.revisions.get(text) or self.revisions.get(self.labels.get(text, ""))
        if found is not None:
            return found
        candidates = sorted(id_ for id_ in self.revisions if text and id_.startswith(text))
        if len(candidates) > 1:
            raise AmbiguousRevisionError(f"{text} is ambiguous: {_listed(self, candidates)}", hint="Type more of it.")
        if not candidates:
            raise RevisionError(f"no revision is named {text}", hint="`schemactl lineage show` lists them.")
        return self.revisions[candidates[0]]

    def with_files(self, changed: Mapping[Path, Revision]) -> "Graph":
        """The graph after some files were written."""
        kept = [revision for revision in self.files if revision.path not in changed]
        return Graph((*kept, *changed.values()), self.unreadable)


def _listed(graph: Graph, ids: Iterable[str]) -> str:
    return ", ".join(f"{id_} ({graph.revisions[id_].path.name})" for id_ in ids) or "there is no revision"


def load(layout: Layout, *, thorough: bool = False) -> Graph:
    """Read a project's revision files; with `thorough` each body is parsed too."""
    return build(((path, _read(path)) for path in layout.files()), thorough=thorough)


def build(files: Iterable[tuple[Path, bytes | UnreadableError]], *, thorough: bool = False) -> Graph:
    """Make a graph from files' paths and bytes."""
    read: list[Revision] = []
    unreadable: list[UnreadableError] = []
    for path, data in files:
        if isinstance(data, UnreadableError):
            unreadable.append(data)
            continue
        try:
            read.append(parse(data, path, thorough=thorough))
        except UnreadableError as error:
            unreadable.append(error)
    return Graph(tuple(read), tuple(unreadable))


def _read(path: Path) -> bytes | UnreadableError:
    try:
        return path.read_bytes()
    except OSError as error:
        return UnreadableError(f"{path} cannot be read: {error.strerror}")


def cycles(graph: Graph) -> Iterator[list[str]]:
    """Strongly connected groups of more than one revision, or of one that stands on itself: the cycles."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in graph.revisions:
        if root in index:
            continue
        work = [(root, iter(_below(graph, root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            id_, parents = work[-1]
            for parent in parents:
                if parent not in index:
                    index[parent] = low[parent] = len(index)
                    stack.append(parent)
                    on_stack.add(parent)
                    work.append((parent, iter(_below(graph, parent))))
                    break
                if parent in on_stack:
                    low[id_] = min(low[id_], index[parent])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[id_])
                if low[id_] == index[id_]:
                    group: list[str] = []
                    while not group or group[-1] != id_:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    if len(group) > 1 or id_ in _below(graph, id_):
                        yield sorted(group)


def _below(graph: Graph, id_: str) -> list[str]:
    return [parent for parent in (*graph.revisions[id_].parents, *graph.dependencies(id_)) if parent in graph.revisions]
