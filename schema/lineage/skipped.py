"""Which revisions `upgrade head` would never run: those that came in below a database's stamp after it was set."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schema.errors import ConfigError
from schema.lineage.backport import original_of
from schema.lineage.findings import WhereIs
from schema.lineage.git import Repository, Snapshot
from schema.lineage.graph import Graph
from schema.lineage.source import Revision

DUMP_FORMAT = 1
"""Version of the files that `lineage dump` writes."""


@dataclass(frozen=True)
class View:
    """A history as it once was: a release, a commit, or a dump."""

    name: str
    graph: Graph


@dataclass(frozen=True)
class Skipped:
    """What one release's databases, or one database, would never run."""

    subject: str
    """A release, or a database."""
    stamped: tuple[str, ...]
    then: str
    """The history that tells what had run."""
    revisions: tuple[Revision, ...] = ()
    """Never run, base first; without those covered."""
    covered: tuple[tuple[Revision, str], ...] = ()
    """Never run, but a backport whose original has run or will run."""
    unknown: tuple[tuple[str, str | None], ...] = ()
    """Stamped ids without a file here, each with the git ref that has it."""

    @property
    def clean(self) -> bool:
        """Whether an upgrade runs everything."""
        return not self.revisions and not self.unknown


def skipped_since(
    graph: Graph, subject: str, stamped: Sequence[str], then: View, where_is: WhereIs = lambda _: None
) -> Skipped:
    """What a database stamped at `stamped` would never run, if it was upgraded there with the history `then`."""
    taken = graph.ancestors(stamped)
    ran = then.graph.ancestors(stamped)
    skipped: list[Revision] = []
    covered: list[tuple[Revision, str]] = []
    for revision in graph.ordered(taken - ran):
        original = original_of(revision)
        if original is not None and original in graph.revisions and (original in ran or original not in taken):
            covered.append((revision, original))
        else:
            skipped.append(revision)
    return Skipped(
        subject,
        tuple(stamped),
        then.name,
        tuple(skipped),
        tuple(covered),
        tuple((id_, where_is(id_)) for id_ in stamped if id_ not in graph.revisions),
    )


def skipped_by_release(graph: Graph, release: View, where_is: WhereIs = lambda _: None) -> Skipped:
    """What a database at the head of a release would never run."""
    return skipped_since(graph, release.name, release.graph.heads, release, where_is)


def skipped_by_database(
    graph: Graph,
    database: str,
    stamped: Sequence[str],
    views: Sequence[View],
    where_is: WhereIs = lambda _: None,
) -> list[Skipped]:
    """What a database may never run, once for each answer that the views with its stamps give.

    A version table holds the stamp and not what ran, so each history that had the stamp is asked; the first view of
    each answer is named. Without any such view today's files are taken as what it ran.
    """
    holding = [view for view in views if all(id_ in view.graph.revisions for id_ in stamped)]
    answers: dict[tuple[str, ...], Skipped] = {}
    for view in holding or [View("the present files", graph)]:
        answer = skipped_since(graph, database, stamped, view, where_is)
        answers.setdefault(tuple(revision.id for revision in answer.revisions), answer)
    return list(answers.values())


def answers(
    graph: Graph,
    releases: Sequence[Snapshot],
    stamped: Mapping[str, Sequence[str]],
    dump: View | None,
    repository: Repository | None,
) -> list[Skipped]:
    """An answer for each release and dump, and for each database by name.

    A database is held against the dump when there is one, else against the releases, else, when no release has its
    stamp, against every commit of this branch itself that changed the revisions.
    """

    def where_is(id_: str) -> str | None:
        return repository.ref_with(id_) if repository else None

    views = [View(snapshot.ref, snapshot.graph) for snapshot in releases]
    found = [skipped_by_release(graph, view, where_is) for view in ([dump] if dump else []) + views]
    for database, ids in stamped.items():
        known = [dump] if dump else views
        if repository and not dump and not any(set(ids) <= view.graph.revisions.keys() for view in views):
            known = [View(f"commit {commit}", repository.snapshot(commit).graph) for commit in repository.commits()]
        found += skipped_by_database(graph, database, ids, known, where_is)
    return found


def dump(graph: Graph, name: str) -> str:
    """A history as JSON, base first, to be kept with a release."""
    return json.dumps(
        {
            "format": DUMP_FORMAT,
            "name": name,
            "heads": list(graph.heads),
            "revisions": [
                {
                    "id": revision.id,
                    "down_revision": list(revision.parents),
                    "depends_on": list(revision.depends_on),
                    "branch_labels": list(revision.labels),
                    "title": revision.title,
                    "file": revision.path.name,
                }
                for revision in graph.ordered()
            ],
        },
        indent=2,
        ensure_ascii=False,
    )


def read_dump(path: Path) -> View:
    """Read what `dump` wrote.

    Raises:
        ConfigError: the file is missing, or no such dump.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != DUMP_FORMAT:
            raise ConfigError(f"{path} is a dump of format {data['format']}, this version reads {DUMP_FORMAT}")
        revisions = tuple(
            Revision(
                str(entry["id"]),
                Path(entry["file"]),
                tuple(entry["down_revision"]),
                tuple(entry["depends_on"]),
                tuple(entry["branch_labels"]),
                str(entry["title"]),
            )
            for entry in data["revisions"]
        )
        return View(str(data["name"]), Graph(revisions))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no history dump", hint="`schemactl lineage dump` makes them.") from error
