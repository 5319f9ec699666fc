"""An empty merge revision of several heads."""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

from schema.errors import ConfigError, ExitCode, RevisionError
from schema.lineage.bodies import touched_tables
from schema.lineage.files import Change
from schema.lineage.findings import blocking, new_defects, phantoms
from schema.lineage.graph import Graph
from schema.lineage.headfile import head_change
from schema.lineage.layout import Layout
from schema.lineage.source import Revision, parse

Template = Callable[[Mapping[str, Any]], str]
"""Renders the project's script.py.mako with the variables that Alembic gives it."""


class MergeRefusedError(RevisionError):
    """These revisions cannot be merged."""

    exit_code = ExitCode.FINDINGS


@dataclass(frozen=True)
class Merge:
    """A planned merge revision."""

    revision: Revision
    changes: tuple[Change, ...]
    shared_tables: tuple[tuple[str, str, str], ...]
    """Two heads and a table that both arms may change."""
    heads_after: tuple[str, ...]


def plan_merge(
    graph: Graph,
    layout: Layout,
    parents: Sequence[str] = (),
    *,
    message: str = "",
    identity: str | None = None,
    now: datetime | None = None,
    template: Template | None = None,
) -> Merge:
    """Plan a revision that merges `parents` (by default every head). Nothing is written.

    Raises:
        MergeRefusedError: fewer than two, one is an ancestor of another, or the history is broken.
    """
    if broken := blocking(graph):
        raise MergeRefusedError(f"the history is broken: {broken.message}", hint=broken.hint)
    merged = tuple(dict.fromkeys(parents or graph.heads))
    if found := phantoms(graph, merged):
        real = [parent for parent in merged if parent not in found]
        reasons = "; ".join(f"{parent} is an ancestor of {other}" for parent, other in found.items())
        raise MergeRefusedError(f"{reasons}, so it would be a phantom parent", hint=f"Merge ({', '.join(real)}).")
    if len(merged) < 2:
        raise MergeRefusedError(
            f"a merge needs two parents, and here is {merged[0] if merged else 'no revision at all'}",
            hint="There is nothing to merge.",
        )
    created = now or _now(layout.timezone)
    id_ = identity or uuid.uuid4().hex[-12:]
    if id_ in graph.revisions:
        raise MergeRefusedError(f"{id_} is the id of {graph.revisions[id_].path.name} already")
    text = message or f"merge {' and '.join(merged)}"
    path = _folder(graph, layout, merged) / _file_name(layout, id_, text, created)
    source = _render(template or _plain, id_, merged, text, created)
    revision = parse(source, path, thorough=True)
    if revision.id != id_ or revision.parents != merged:
        raise ConfigError(f"{layout.script_location / 'script.py.mako'} makes no revision {id_} on {', '.join(merged)}")
    after = graph.with_files({path: revision})
    if worse := new_defects(graph, after):
        raise MergeRefusedError(worse[0].message, hint=worse[0].hint)
    changes = [Change(path, None, source)]
    if len(after.heads) == 1:
        changes += head_change(layout.head_file, after.heads[0])
    return Merge(revision, tuple(changes), tuple(_shared_tables(graph, merged)), after.heads)


def _render(template: Template, id_: str, parents: tuple[str, ...], message: str, created: datetime) -> bytes:
    variables = {
        "up_revision": id_,
        "down_revision": parents,
        "branch_labels": None,
        "depends_on": None,
        "create_date": created,
        "comma": lambda value: ", ".join(value or ()) if not isinstance(value, str) else value,
        "message": message,
    }
    return template(variables).encode("utf-8")


def _plain(variables: Mapping[str, Any]) -> str:
    return f'''"""{variables["message"]}

Revision ID: {variables["up_revision"]}
Revises: {", ".join(variables["down_revision"])}
Create Date: {variables["create_date"]}

"""

revision = {variables["up_revision"]!r}
down_revision = {variables["down_revision"]!r}
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
'''


def _now(timezone: str | None) -> datetime:
    if timezone is None:
        return datetime.now().replace(microsecond=0)
    from zoneinfo import ZoneInfo

    try:
        return datetime.now(ZoneInfo(timezone)).replace(microsecond=0)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(f"timezone {timezone} is not known here", hint="Correct it in alembic.ini.") from error


def _folder(graph: Graph, layout: Layout, parents: tuple[str, ...]) -> Path:
    return (
        layout.version_locations[0] if len(layout.version_locations) == 1 else graph.revisions[parents[0]].path.parent
    )


def _file_name(layout: Layout, id_: str, message: str, created: datetime) -> str:
    slug = "_".join(re.findall(r"\w+", message)).lower()
    if len(slug) > layout.truncate_slug_length:
        slug = slug[: layout.truncate_slug_length].rsplit("_", 1)[0] + "_"
    values = {name: getattr(created, name) for name in ("year", "month", "day", "hour", "minute", "second")}
    try:
        name = layout.file_template % {"rev": id_, "slug": slug, "epoch": int(created.timestamp()), **values}
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{layout.config}: file_template {layout.file_template} cannot be filled: {error}") from error
    return f"{name}.py"


def _shared_tables(graph: Graph, parents: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Pairs of arms and the tables that both may touch; what all of them have below is no arm."""
    shared = []
    for one, other in combinations(parents, 2):
        below_one, below_other = graph.ancestors([one]), graph.ancestors([other])
        common = _tables(graph, below_one - below_other) & _tables(graph, below_other - below_one)
        shared += [(one, other, table) for table in sorted(common)]
    return shared


def _tables(graph: Graph, ids: set[str]) -> set[str]:
    tables: set[str] = set()
    for id_ in ids:
        path = graph.revisions[id_].path
        tables |= touched_tables(path.read_bytes(), path)
    return tables
