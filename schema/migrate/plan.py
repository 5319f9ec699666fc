"""Refusals before the first step: a plan that is ambiguous, or would leave several rows in the version table."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from alembic.runtime.migration import HeadMaintainer, RevisionStep
from alembic.script import ScriptDirectory
from alembic.util import to_tuple

from schema.errors import ExitCode, RevisionError


class RefusedPlanError(RevisionError):
    """The plan can be run, but leads to where nobody may want to be."""

    exit_code = ExitCode.FINDINGS


class _Rows(HeadMaintainer):
    """Alembic's own rule for the rows of the version table, without a table."""

    def __init__(self, heads: Iterable[str]) -> None:
        self.heads = set(heads)

    def _insert_version(self, version: str) -> None:
        self.heads.add(version)

    def _delete_version(self, version: str) -> None:
        self.heads.remove(version)

    def _update_version(self, from_: str, to_: str) -> None:
        self.heads.remove(from_)
        self.heads.add(to_)


def rows_after(heads: Iterable[str], steps: Iterable[RevisionStep]) -> tuple[str, ...]:
    """The rows that the version table has after the steps."""
    rows = _Rows(heads)
    for step in steps:
        rows.update_to_step(step)
    return tuple(sorted(rows.heads))


def check_rows(before: Sequence[str], after: Sequence[str], destination: str) -> None:
    """Make sure that a run ends at one revision.

    Raises:
        RefusedPlanError: it does not.
    """
    if len(after) > 1:
        raise RefusedPlanError(
            f"{destination} leaves {len(after)} rows in the version table: {', '.join(after)} "
            f"(now {', '.join(before) or 'none'})",
            hint="--yes (of alembic: -x yes) does so all the same; a revision that merges them, or one below "
            "where they part, leaves one.",
        )


def check_steps(script: ScriptDirectory, heads: Sequence[str], destination: str) -> None:
    """Make sure that a number of steps, such as -1, leads to one revision.

    Raises:
        RefusedPlanError: it goes through a merge or a branch point, or begins at several revisions.
    """
    found = re.fullmatch(r"([+-])(\d+)", destination)
    if found is None:
        return
    down = found[1] == "-"
    at = set(heads)
    for _ in range(int(found[2])):
        following = _parents(script, at) if down else _children(script, at)
        if len(at) > 1 or len(following) > 1:
            way = "downgrade" if down else "upgrade"
            targets = ", ".join(sorted(following)) or "base"
            raise RefusedPlanError(
                f"{destination} is ambiguous: the history parts at {', '.join(sorted(at)) or 'its base'}",
                hint=f"Name where to go, `schemactl {way} REVISION`: {targets}.",
            )
        at = following


def _parents(script: ScriptDirectory, at: set[str]) -> set[str]:
    return {parent for id_ in at for parent in to_tuple(_revision(script, id_).down_revision, default=())}


def _children(script: ScriptDirectory, at: set[str]) -> set[str]:
    if not at:
        return set(script.get_bases())
    return {child for id_ in at for child in _revision(script, id_).nextrev}


def _revision(script: ScriptDirectory, id_: str) -> Any:
    return script.revision_map.get_revision(id_)
