"""Replays a project's revisions in a scratch database, and remembers the result by what it was made of."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from schema.drift.capture import redirected
from schema.drift.workshop import Workshop
from schema.errors import ConfigError, RevisionError, SchemaError
from schema.migrate.project import Project
from schema.migrate.runner import Step, upgrade
from schema.pg.catalog import Key, Kind, Snapshot, read_snapshot
from schema.pg.catalog.store import dump_snapshot, dumps, load_snapshot
from schema.pg.connect import connect
from schema.pg.target import Target


@dataclass(frozen=True)
class History:
    """What the revisions make of an empty database."""

    snapshot: Snapshot
    touched: Mapping[Key, str]
    """The last revision that made, changed or removed an object. Lacks what a run in one transaction hides."""
    cached: bool


def replay(project: Project, workshop: Workshop, *, report: Callable[[str], None] = lambda _: None) -> History:
    """Return what the history makes of an empty database: from the cache, or by running it to its heads.

    Raises:
        RevisionError: a revision cannot be run; the message names it.
    """
    path = _cache_path(project, workshop)
    if (known := _cached(path)) is not None:
        return known
    touched: dict[Key, str] = {}
    report("Replaying the history in a scratch database ...")
    with workshop.database(lambda target: _run(project, target, touched)) as target, _reading(target) as connection:
        snapshot = read_snapshot(connection)
    made = History(snapshot, touched, cached=False)
    _keep(path, made)
    return made


def _run(project: Project, target: Target, touched: dict[Key, str]) -> None:
    touched.clear()
    with _reading(target) as connection, redirected(target):
        objects = [read_snapshot(connection).objects]

        def note(step: Step) -> None:
            # A revision that is committed shows in a transaction of another connection.
            if step.seconds is None:
                return
            before, after = objects[0], read_snapshot(connection).objects
            for key in before.keys() | after.keys():
                if before.get(key) != after.get(key):
                    touched[key] = step.revision.id
            objects[0] = after

        try:
            upgrade(project, target, "heads", on_step=note)
        except (RevisionError, ConfigError):
            raise
        except SchemaError as error:
            raise RevisionError(f"the history cannot be replayed: {error.message}", hint=error.hint) from error


def _reading(target: Target) -> Any:
    return connect(target, application_name="schemactl drift", autocommit=True)


def _cache_path(project: Project, workshop: Workshop) -> Path:
    """Where the result belongs: a name made of all that goes into it."""
    with connect(workshop.server, application_name="schemactl drift", autocommit=True) as connection:
        server = connection.info.server_version
    digest = hashlib.sha256()
    parts = [version("schemactl"), str(server), repr(workshop.like and workshop.like.attributes())]
    script = Path(project.script.dir)
    files = {script / "env.py", project.ini}
    folders = {Path(revision.path).parent for revision in project.script.walk_revisions()}
    files |= {path for folder in folders for path in folder.glob("*.py")}
    for part in parts:
        digest.update(part.encode() + b"\0")
    for path in sorted(files):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return cache_dir() / f"history-{digest.hexdigest()[:32]}.json"


def cache_dir() -> Path:
    """The user's cache; never a folder of the project."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "schemactl"


def _cached(path: Path) -> History | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        touched = {Key(Kind(kind), identity): revision for kind, identity, revision in data["touched"]}
        return History(load_snapshot(data["snapshot"]), touched, cached=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(path: Path, history: History) -> None:
    data = {
        "snapshot": dump_snapshot(history.snapshot),
        "touched": [[key.kind, key.identity, revision] for key, revision in history.touched.items()],
    }
    # Renamed into place, so that a reader never sees half of it. A cache that cannot be written costs time only.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(dumps(data), encoding="utf-8")
        fresh.replace(path)
    except OSError:
        return
