"""What can be wrong with a history, each with the files to look at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from schema.lineage.graph import Graph, cycles
from schema.lineage.source import Revision

ID_MAX_LENGTH = 32
"""Length of alembic_version.version_num, in characters."""

ILLEGAL_IN_ID = frozenset("@-+")
"""Characters that Alembic's own syntax of targets takes."""


class Kind(StrEnum):
    """Kinds of findings."""

    UNREADABLE = "unreadable"
    SEVERAL_HEADS = "several-heads"
    SEVERAL_BASES = "several-bases"
    MISSING_PARENT = "missing-parent"
    ORPHAN_MERGE = "orphan-merge"
    AMBIGUOUS_PREFIX = "ambiguous-prefix"
    MISSING_DEPENDENCY = "missing-dependency"
    DUPLICATE_ID = "duplicate-id"
    DUPLICATE_LABEL = "duplicate-label"
    CYCLE = "cycle"
    ID_TOO_LONG = "id-too-long"
    ILLEGAL_ID = "illegal-id"
    PHANTOM_PARENT = "phantom-parent"
    REVISES_DIFFERS = "revises-differs"
    HEAD_FILE = "head-file"
    EDITED = "edited"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: a sentence, the revisions and files it is about, and what to do."""

    kind: Kind
    message: str
    revisions: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    hint: str = ""


BLOCKING = frozenset(
    {
        Kind.UNREADABLE,
        Kind.MISSING_PARENT,
        Kind.ORPHAN_MERGE,
        Kind.AMBIGUOUS_PREFIX,
        Kind.MISSING_DEPENDENCY,
        Kind.DUPLICATE_ID,
        Kind.DUPLICATE_LABEL,
        Kind.CYCLE,
    }
)
"""Kinds with which nobody can say what stands on what, so that nothing is planned on such a history."""

WhereIs = Callable[[str], str | None]
"""Names the git ref that has a revision, or None."""


def check(graph: Graph, where_is: WhereIs = lambda _: None) -> list[Finding]:
    """Every defect of a graph. `where_is` is asked about revisions that have no file."""
    findings = [Finding(Kind.UNREADABLE, error.message, hint=error.hint) for error in graph.unreadable]
    findings += _duplicates(graph)
    findings += _missing(graph, where_is)
    findings += _cycles(graph)
    findings += _ids(graph)
    findings += _phantoms(graph)
    findings += _revises(graph)
    if len(graph.heads) > 1:
        findings.append(
            Finding(
                Kind.SEVERAL_HEADS,
                f"{len(graph.heads)} heads: {_named(graph, graph.heads)}",
                graph.heads,
                _paths(graph, graph.heads),
                "`schemactl merge` joins them; `schemactl rebase` moves an arm that nobody has run yet.",
            )
        )
    if len(graph.bases) > 1:
        findings.append(
            Finding(
                Kind.SEVERAL_BASES,
                f"{len(graph.bases)} bases: {_named(graph, graph.bases)}",
                graph.bases,
                _paths(graph, graph.bases),
                "Only the first revision has down_revision = None; give the others their parent.",
            )
        )
    return findings


def blocking(graph: Graph) -> Finding | None:
    """The first finding that has to be repaired before anything is planned."""
    return next((finding for finding in check(graph) if finding.kind in BLOCKING), None)


def new_defects(before: Graph, after: Graph) -> list[Finding]:
    """What a plan would make worse. Heads and bases are its business, and `Revises:` lines are written with it."""
    ignored = {Kind.SEVERAL_HEADS, Kind.SEVERAL_BASES, Kind.REVISES_DIFFERS}
    known = {(finding.kind, finding.revisions) for finding in check(before)}
    return [
        finding
        for finding in check(after)
        if finding.kind not in ignored and (finding.kind, finding.revisions) not in known
    ]


def _named(graph: Graph, ids: tuple[str, ...]) -> str:
    return ", ".join(f"{id_} ({graph.revisions[id_].path.name})" for id_ in ids)


def _paths(graph: Graph, ids: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(graph.revisions[id_].path for id_ in ids)


def _about(kind: Kind, revision: Revision, message: str, hint: str = "") -> Finding:
    return Finding(kind, f"{revision.path.name}: {message}", (revision.id,), (revision.path,), hint)


def _duplicates(graph: Graph) -> Iterator[Finding]:
    ids: dict[str, list[Path]] = {}
    labels: dict[str, list[Revision]] = {}
    for revision in graph.files:
        ids.setdefault(revision.id, []).append(revision.path)
        for label in revision.labels:
            labels.setdefault(label, []).append(revision)
    for id_, paths in ids.items():
        if len(paths) > 1:
            yield Finding(
                Kind.DUPLICATE_ID,
                f"{id_} is the id of {len(paths)} files: {', '.join(map(str, paths))}",
                (id_,),
                tuple(paths),
                "Give the younger one an id of its own, and change what stands on it.",
            )
    for label, owners in labels.items():
        if len(owners) > 1 or label in graph.revisions:
            yield Finding(
                Kind.DUPLICATE_LABEL,
                f"branch label {label} is taken twice: {', '.join(owner.path.name for owner in owners)}"
                + (f" and the id of {graph.revisions[label].path.name}" if label in graph.revisions else ""),
                tuple(owner.id for owner in owners),
                tuple(owner.path for owner in owners),
            )


def _missing(graph: Graph, where_is: WhereIs) -> Iterator[Finding]:
    for revision in graph.files:
        missing = [parent for parent in dict.fromkeys(revision.parents) if parent not in graph.revisions]
        if len(missing) > 1 and len(missing) == len(set(revision.parents)):
            known = [f"{parent} is in {ref}" for parent in missing if (ref := where_is(parent))]
            yield _about(
                Kind.ORPHAN_MERGE,
                revision,
                f"{revision.id} merges {', '.join(missing)}, none of which has a file",
                f"{'; '.join(known)}: merge that ref first." if known else "Bring their files back, or delete it.",
            )
            continue
        for parent in missing:
            yield _missing_one(graph, revision, parent, where_is)
        for name in revision.depends_on:
            if name not in graph.revisions and name not in graph.labels:
                ref = where_is(name)
                yield _about(
                    Kind.MISSING_DEPENDENCY,
                    revision,
                    f"{revision.id} depends on {name}, which has no file",
                    f"It is in {ref}." if ref else "",
                )


def _missing_one(graph: Graph, revision: Revision, parent: str, where_is: WhereIs) -> Finding:
    candidates = sorted(id_ for id_ in graph.revisions if parent and id_.startswith(parent))
    if len(candidates) > 1:
        return Finding(
            Kind.AMBIGUOUS_PREFIX,
            f"{revision.path.name}: down_revision {parent} is the beginning of {len(candidates)} ids: "
            + _named(graph, tuple(candidates)),
            (revision.id, *candidates),
            (revision.path, *_paths(graph, tuple(candidates))),
            "Write the whole id.",
        )
    if candidates:
        hint = f"Did you mean {candidates[0]}? A down_revision is never abbreviated."
    elif ref := where_is(parent):
        hint = f"It is in {ref}: merge or cherry-pick it first."
    else:
        hint = "No git ref has it either. Bring its file back, or correct down_revision."
    return _about(
        Kind.MISSING_PARENT, revision, f"{revision.id} stands on {parent or repr(parent)}, which has no file", hint
    )


def _cycles(graph: Graph) -> Iterator[Finding]:
    for group in cycles(graph):
        ids = tuple(group)
        yield Finding(
            Kind.CYCLE,
            f"{len(ids)} revisions stand on each other: {_named(graph, ids)}",
            ids,
            _paths(graph, ids),
            "Correct one down_revision or depends_on among them.",
        )


def _ids(graph: Graph) -> Iterator[Finding]:
    for revision in graph.files:
        if len(revision.id) > ID_MAX_LENGTH:
            yield _about(
                Kind.ID_TOO_LONG,
                revision,
                f"{revision.id} has {len(revision.id)} characters, and the version table holds {ID_MAX_LENGTH}",
                "Give it a shorter id.",
            )
        if illegal := sorted(ILLEGAL_IN_ID.intersection(revision.id)):
            yield _about(
                Kind.ILLEGAL_ID, revision, f"{revision.id} has characters that Alembic refuses: {' '.join(illegal)}"
            )


def phantoms(graph: Graph, parents: tuple[str, ...]) -> dict[str, str]:
    """Of a merge's parents, those that are ancestors of another, each with that other."""
    known = [parent for parent in dict.fromkeys(parents) if parent in graph.revisions]
    found: dict[str, str] = {}
    # Nothing below the lowest parent leads to a parent, so the search stays between the arms.
    floor = min((graph.positions[parent] for parent in known), default=0)
    for other in known:
        seen = {other}
        waiting = list(graph.revisions[other].parents)
        while waiting:
            id_ = waiting.pop()
            if id_ in seen or graph.positions.get(id_, -1) < floor:
                continue
            seen.add(id_)
            if id_ in known:
                found.setdefault(id_, other)
            waiting += graph.revisions[id_].parents
    return {parent: found[parent] for parent in known if parent in found}


def _phantoms(graph: Graph) -> Iterator[Finding]:
    for revision in graph.revisions.values():
        if len(revision.parents) < 2:
            continue
        found = phantoms(graph, revision.parents)
        repeated = [parent for parent in dict.fromkeys(revision.parents) if revision.parents.count(parent) > 1]
        if found or repeated:
            real = [parent for parent in dict.fromkeys(revision.parents) if parent not in found]
            reasons = [f"{parent} is an ancestor of {other}" for parent, other in found.items()]
            reasons += [f"{parent} is named twice" for parent in repeated]
            yield _about(
                Kind.PHANTOM_PARENT,
                revision,
                f"{revision.id} merges {', '.join(revision.parents)}, but {'; '.join(reasons)}",
                f"Its real parents are ({', '.join(real)}).",
            )


def _revises(graph: Graph) -> Iterator[Finding]:
    for revision in graph.files:
        if "Revises:" not in revision.docstring:
            continue
        written = revision.revises
        if written is not None and set(written) - {"<base>", "None"} != set(revision.parents):
            yield _about(
                Kind.REVISES_DIFFERS,
                revision,
                f"its docstring says Revises: {', '.join(written) or 'nothing'}, "
                f"its down_revision says {', '.join(revision.parents) or 'None'}",
                "Alembic goes by down_revision; make the line say the same.",
            )
