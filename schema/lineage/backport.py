"""A fix for an old release: its copy stands at the release point, the original stays at the head.

A database at the release runs the copy; one beyond it took the copy as applied and runs the original. Both run on a
database made from empty, so the fix has to be idempotent.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schema.errors import ExitCode, RevisionError, UsageError
from schema.lineage.edit import relinked, renamed
from schema.lineage.files import Change
from schema.lineage.findings import Kind, check, new_defects
from schema.lineage.git import Repository, Snapshot, required
from schema.lineage.graph import Graph
from schema.lineage.source import Revision, parse

MARK = "# Backport of:"
"""The comment that names a copy's original."""

_MARK = re.compile(rb"^# Backport of:[ \t]*(\S+)[ \t]*\r?$", re.MULTILINE)


class BackportRefusedError(RevisionError):
    """The fix cannot be put there."""

    exit_code = ExitCode.FINDINGS


@dataclass(frozen=True)
class Backport:
    """A planned backport."""

    fix: Revision
    copy: Revision
    point: str
    relinked: tuple[Revision, ...]
    """Revisions that stood on the release point and will stand on the copy, as they were."""
    graph: Graph
    changes: tuple[Change, ...]


def original_of(revision: Revision) -> str | None:
    """The id of the revision that this one is a backport of; None when it is none, or its file is not at hand."""
    if not revision.path.is_file():
        return None
    found = _MARK.search(revision.path.read_bytes())
    return found[1].decode(errors="replace") if found else None


def release_point(graph: Graph, repository: Repository | None, text: str) -> str:
    """The revision that a release's ref ends at, or the revision itself.

    Raises:
        BackportRefusedError: the ref has several heads.
        RevisionError: it is neither a ref nor a revision.
    """
    try:
        heads = required(repository).snapshot(text).graph.heads
    except UsageError:
        return graph.resolve(text).id
    if len(heads) != 1:
        raise BackportRefusedError(f"{text} has {len(heads)} heads", hint="Name the revision to put the copy on.")
    return graph.resolve(heads[0]).id


def plan_backport(
    graph: Graph,
    fix: str,
    point: str,
    *,
    releases: Sequence[Snapshot] = (),
    identity: str | None = None,
) -> Backport:
    """Plan a copy of revision `fix`, a head, right above revision `point`. Nothing is written.

    Raises:
        BackportRefusedError: the fix is no head, is released, is a merge, or does not stand on the point.
    """
    if broken := [finding for finding in check(graph) if finding.kind is not Kind.REVISES_DIFFERS]:
        raise BackportRefusedError(f"the history is not clean: {broken[0].message}", hint=broken[0].hint)
    original = graph.revisions[fix]
    if fix not in graph.heads or len(original.parents) != 1:
        raise BackportRefusedError(
            f"{fix} is no plain head", hint="Write the fix as the newest revision first, then backport it."
        )
    if point not in graph.ancestors(original.parents):
        raise BackportRefusedError(f"{fix} does not stand on {point}")
    for snapshot in releases:
        if fix in snapshot.graph.revisions:
            raise BackportRefusedError(
                f"{fix} is part of {snapshot.ref} already, so a database there would run it before its backport",
                hint="Write a new fix at the head.",
            )
    above = [graph.revisions[id_] for id_ in sorted(graph.children.get(point, ()))]
    if above == [original]:
        raise BackportRefusedError(f"{fix} stands on {point} directly", hint="There is nothing to backport.")
    id_ = identity or uuid.uuid4().hex[-12:]
    copy, change = _copied(original, id_, point)
    changes = [change]
    changed = {copy.path: copy}
    for child in above:
        parents = tuple(id_ if parent == point else parent for parent in child.parents)
        before = child.path.read_bytes()
        changes.append(Change(child.path, before, relinked(before, child.path, parents)))
        changed[child.path] = replace(child, parents=parents)
    after = graph.with_files(changed)
    if worse := new_defects(graph, after):
        raise BackportRefusedError(worse[0].message, hint=worse[0].hint)
    return Backport(original, copy, point, tuple(above), after, tuple(changes))


def _copied(original: Revision, id_: str, point: str) -> tuple[Revision, Change]:
    name = original.path.name
    name = name.replace(original.id, id_) if original.id in name else f"{id_}_{name}"
    path = original.path.with_name(name)
    source = renamed(relinked(original.path.read_bytes(), original.path, (point,)), original.path, id_)
    ending = b"\r\n" if b"\r\n" in source else b"\n"
    source = source.rstrip(b"\r\n") + ending * 2 + f"{MARK} {original.id}".encode() + ending
    return parse(source, path), Change(path, None, source)
