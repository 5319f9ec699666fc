"""Moving an arm on top of another head: one changed `down_revision`, and never a database that skips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schema.errors import ExitCode, RevisionError
from schema.lineage.edit import relinked
from schema.lineage.files import Change
from schema.lineage.findings import WhereIs, blocking, new_defects
from schema.lineage.git import Repository, Snapshot
from schema.lineage.graph import Graph
from schema.lineage.headfile import head_change
from schema.lineage.layout import Layout
from schema.lineage.source import Revision


class RebaseRefusedError(RevisionError):
    """The arm must not be moved."""

    exit_code = ExitCode.FINDINGS
    default_hint = "`schemactl merge` joins the heads without moving anything."


@dataclass(frozen=True)
class Rebase:
    """A planned move."""

    moved: tuple[Revision, ...]
    """The arm, base first; only its first revisions are written."""
    relinked: tuple[Revision, ...]
    """Those whose `down_revision` changes, as they were."""
    onto: str
    graph: Graph
    """The graph afterwards."""
    changes: tuple[Change, ...]


def plan_rebase(
    graph: Graph,
    layout: Layout,
    arm: str,
    onto: str,
    *,
    releases: Sequence[Snapshot] = (),
    stamped: Mapping[str, Sequence[str]] | None = None,
    where_is: WhereIs = lambda _: None,
) -> Rebase:
    """Plan to move the revisions that only head `arm` has onto head `onto`.

    `releases` are the histories that somebody may have run; `stamped` holds the revisions in the version table of
    each known database, by the database's name. Nothing is written.

    Raises:
        RebaseRefusedError: a moved revision is released or stamped, a database would skip, or the history is or would
            be broken.
    """
    if broken := blocking(graph):
        raise RebaseRefusedError(f"the history is broken: {broken.message}", hint=broken.hint)
    below = graph.ancestors([onto], dependencies=False)
    mine = graph.ancestors([arm], dependencies=False) - below
    firsts = [graph.revisions[id_] for id_ in mine if not mine.intersection(graph.revisions[id_].parents)]
    if not firsts:
        raise RebaseRefusedError(f"{arm} stands below {onto} already", hint="There is nothing to move.")
    firsts.sort(key=lambda revision: revision.id)
    moved = graph.descendants([revision.id for revision in firsts])
    _refuse_released(moved, onto, releases)
    _refuse_inner_merges(graph, mine, firsts, onto)
    changed = {revision.path: replace(revision, parents=(onto,)) for revision in firsts}
    after = graph.with_files(changed)
    _refuse_stamped(graph, after, moved, stamped or {}, where_is)
    _refuse_skips(graph, after, releases)
    if worse := new_defects(graph, after):
        raise RebaseRefusedError(f"moving {arm} onto {onto} would break the history: {worse[0].message}")
    changes = [_relink(revision, onto) for revision in firsts]
    heads = after.heads
    if len(heads) == 1:
        changes += head_change(layout.head_file, heads[0])
    return Rebase(tuple(graph.ordered(moved)), tuple(firsts), onto, after, tuple(changes))


def choose_arm(
    graph: Graph, repository: Repository | None, arm: str | None, onto: str | None, base_ref: str | None
) -> tuple[str, str]:
    """The head to move and the head to move it onto: as said, else mine is the one that the shared branch lacks.

    Raises:
        RevisionError: one is no head, or it cannot be told.
    """
    hint = "Say both: schemactl rebase MINE --onto OTHER"
    mine, other = (graph.resolve(text).id if text else None for text in (arm, onto))
    for id_ in (mine, other):
        if id_ and id_ not in graph.heads:
            raise RevisionError(f"{id_} is no head", hint=f"The heads are {', '.join(graph.heads)}.")
    if len(graph.heads) < 2:
        raise RevisionError(f"there is one head, {', '.join(graph.heads)}", hint="There is nothing to rebase.")
    if mine and other:
        return mine, other
    if len(graph.heads) > 2:
        raise RevisionError(f"there are {len(graph.heads)} heads: {', '.join(graph.heads)}", hint=hint)
    if mine or other:
        left = next(head for head in graph.heads if head != (mine or other))
        return mine or left, other or left
    return _own_arm(graph, repository, base_ref, hint)


def _own_arm(graph: Graph, repository: Repository | None, base_ref: str | None, hint: str) -> tuple[str, str]:
    ref = base_ref or (repository.default_branch() if repository else None)
    if repository is None or ref is None:
        raise RevisionError("no branch of git says which of the two heads is yours", hint=hint)
    shared = repository.snapshot(ref).graph.revisions
    mine = [head for head in graph.heads if head not in shared]
    if len(mine) != 1:
        state = "both heads" if not mine else "neither head"
        raise RevisionError(f"{ref} has {state}, so it does not say which is yours", hint=hint)
    return mine[0], next(head for head in graph.heads if head != mine[0])


def _relink(revision: Revision, onto: str) -> Change:
    before = revision.path.read_bytes()
    return Change(revision.path, before, relinked(before, revision.path, (onto,)))


def _refuse_inner_merges(graph: Graph, mine: set[str], firsts: list[Revision], onto: str) -> None:
    for id_ in sorted(mine - {revision.id for revision in firsts}):
        outside = [parent for parent in graph.revisions[id_].parents if parent not in mine]
        if outside:
            raise RebaseRefusedError(
                f"{id_} merges {', '.join(outside)}, which {onto} stands on too: after the move it would be a "
                "phantom parent",
                hint=f"Move the other arm onto {id_}'s head instead, or run `schemactl merge`.",
            )


def _refuse_released(moved: set[str], onto: str, releases: Sequence[Snapshot]) -> None:
    for snapshot in releases:
        if common := sorted(moved & snapshot.graph.revisions.keys()):
            raise RebaseRefusedError(
                f"{', '.join(common)} would move, and {snapshot.ref} contains {'it' if len(common) == 1 else 'them'}: "
                f"a database of that release would skip what is new below {onto}"
            )


def _refuse_stamped(
    before: Graph, after: Graph, moved: set[str], stamped: Mapping[str, Sequence[str]], where_is: WhereIs
) -> None:
    for database, ids in stamped.items():
        for id_ in ids:
            if id_ not in before.revisions:
                ref = where_is(id_)
                raise RebaseRefusedError(
                    f"{database} is stamped at {id_}, which has no file here, so what it ran is not known",
                    hint=f"It is in {ref}: merge that first." if ref else "No git ref has it.",
                )
            gained = after.ancestors([id_]) - before.ancestors([id_])
            if id_ in moved or gained:
                skipped = ", ".join(revision.id for revision in after.ordered(gained))
                raise RebaseRefusedError(
                    f"{database} is stamped at {id_}, which would move"
                    + (f": it would skip {skipped}" if skipped else "")
                )


def _refuse_skips(before: Graph, after: Graph, releases: Sequence[Snapshot]) -> None:
    for snapshot in releases:
        heads = snapshot.graph.heads
        if gained := after.ancestors(heads) - before.ancestors(heads):
            raise RebaseRefusedError(f"a database of {snapshot.ref} would skip {', '.join(sorted(gained))}")
