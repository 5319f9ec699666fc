"""Replays a project's revisions in a scratch database, and remembers the result by what it was made of."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import sql

from schema.drift.cache import cache_path, keep, load
from schema.drift.capture import redirected
from schema.drift.workshop import Workshop
from schema.errors import ConfigError, RevisionError, SchemaError
from schema.migrate.project import Project
from schema.migrate.runner import Options, Step, upgrade
from schema.pg.catalog import Key, Kind, Snapshot, read_snapshot
from schema.pg.catalog.store import dump_snapshot, load_snapshot
from schema.pg.connect import connect
from schema.pg.target import Target


@dataclass(frozen=True)
class History:
    """What the revisions make of an empty database."""

    snapshot: Snapshot
    touched: Mapping[Key, str]
    """The last revision that made, changed or removed an object. Lacks what a run in one transaction hides."""
    cached: bool


def replay(
    project: Project,
    workshop: Workshop,
    *,
    schemas: Collection[str],
    report: Callable[[str], None] = lambda _: None,
) -> History:
    """Return what the history makes of an empty database: from the cache, or by running it to its heads.

    `schemas`, quoted where needed, are those of the version tables, which Alembic expects to be there.

    Raises:
        RevisionError: a revision cannot be run; the message names it.
    """
    path = cache_path("history", workshop, history_parts(project))
    if (known := _cached(path)) is not None:
        return known
    touched: dict[Key, str] = {}
    report("Replaying the history in a scratch database ...")
    with (
        workshop.database(lambda target: _run(project, target, schemas, touched)) as target,
        _reading(target) as connection,
    ):
        snapshot = read_snapshot(connection)
    made = History(snapshot, touched, cached=False)
    rows = [[key.kind, key.identity, revision] for key, revision in touched.items()]
    keep(path, {"snapshot": dump_snapshot(snapshot), "touched": rows})
    return made


def _run(project: Project, target: Target, schemas: Collection[str], touched: dict[Key, str]) -> None:
    touched.clear()
    with _reading(target) as connection, redirected(lambda: target):
        for schema in schemas:
            connection.execute(sql.SQL(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
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
            upgrade(project, target, "heads", options=Options(yes=True), on_step=note)
        except (RevisionError, ConfigError):
            raise
        except SchemaError as error:
            raise RevisionError(f"the history cannot be replayed: {error.message}", hint=error.hint) from error


def _reading(target: Target) -> Any:
    return connect(target, application_name="schemactl drift", autocommit=True)


def history_parts(project: Project, *, without: Collection[Path] = ()) -> Iterator[bytes]:
    """What the outcome of a replay depends on: env.py, the ini, and what is in the folders of the revisions."""
    script = Path(project.script.dir)
    files = {script / "env.py", project.ini.absolute()}
    folders = {Path(revision.path).parent for revision in project.script.walk_revisions()}
    files |= {path for folder in folders for path in folder.glob("*.py")}
    for path in sorted(files.difference(without)):
        if path.is_file():
            yield path.name.encode()
            yield path.read_bytes()


def _cached(path: Path) -> History | None:
    data = load(path)
    if data is None:
        return None
    try:
        touched = {Key(Kind(kind), identity): revision for kind, identity, revision in data["touched"]}
        return History(load_snapshot(data["snapshot"]), touched, cached=True)
    except (ValueError, KeyError, TypeError):
        return None
