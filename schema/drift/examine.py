"""The whole examination: gathers the sides that are wanted, compares them in pairs, and sorts out what is accepted."""

import datetime
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psycopg

from schema.drift.accept import Acceptance, read_acceptances, unused
from schema.drift.capture import Configuration, capture
from schema.drift.compare import compare
from schema.drift.difference import Difference
from schema.drift.filters import Filters
from schema.drift.history import History, replay
from schema.drift.judge import Judge
from schema.drift.models import Models, ModelsError, made_models
from schema.drift.verdict import Finding, Pair, Side, comparable, judge_pairs
from schema.drift.workshop import Workshop, open_workshop
from schema.errors import ConfigError, RevisionError, SchemaError
from schema.migrate.project import Project
from schema.pg.catalog import Snapshot, read_snapshot
from schema.pg.connect import connect
from schema.pg.errors import translate
from schema.pg.target import Target


@dataclass(frozen=True)
class Request:
    """What to examine."""

    project: Project
    live: Target | None
    sides: frozenset[Side]
    scratch_url: str | None
    pg_bindir: Path | None
    report: Callable[[str], None] = lambda _: None
    """Takes messages for the person who waits."""


@dataclass
class Examination:
    """What was found."""

    sides: list[Side] = field(default_factory=list)
    """Those that could be had."""
    findings: list[Finding] = field(default_factory=list)
    equivalent: list[Finding] = field(default_factory=list)
    accepted: list[tuple[Finding, Acceptance]] = field(default_factory=list)
    stale: list[tuple[Acceptance, str]] = field(default_factory=list)
    """Entries of the acceptance list that are a finding themselves, and why."""
    faults: list[SchemaError] = field(default_factory=list)
    """Why a side is missing."""
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Nothing is to be done."""
        return not self.findings and not self.stale


def examine(request: Request) -> Examination:
    """Compare the sides that are wanted, as far as they can be had.

    Raises:
        SchemaError: fewer than two sides are left to compare; the first fault says why.
    """
    examination = Examination()
    entries = read_acceptances(request.project)
    with ExitStack() as stack:
        gathered = stack.enter_context(_gathered(request, examination))
        sides = gathered.sides
        examination.sides = [side for side in Side if side in sides]
        if len(sides) < 2:
            raise (
                examination.faults[0]
                if examination.faults
                else ConfigError(
                    "there is nothing to compare with", hint="Name a database with --url, or two sides with --between."
                )
            )
        found = {pair: gathered.filters.kept(_compared(sides, pair, gathered)) for pair in _pairs(examination.sides)}
        examination.notes += gathered.workshop.notes
        touched = gathered.history.touched if gathered.history else {}
    _sort_out(request, examination, judge_pairs(found, touched), entries, gathered.current)
    return examination


@dataclass
class _Gathered:
    workshop: Workshop
    sides: dict[Side, Snapshot]
    filters: Filters
    history: History | None
    judge: Judge | None
    current: tuple[str, ...] = ()


@contextmanager
def _gathered(request: Request, examination: Examination) -> Iterator[_Gathered]:
    live = None
    if request.live is not None and Side.LIVE in request.sides:
        live = _read_live(request.live)
    with (
        open_workshop(
            live=live,
            live_target=request.live if live else None,
            scratch_url=request.scratch_url,
            pg_bindir=request.pg_bindir,
            ini=request.project.ini,
        ) as workshop,
        ExitStack() as stack,
    ):
        configurations = _configurations(request, workshop, examination, stack)
        schemas = {each.version_schema for each in configurations}
        history = _history(request, workshop, schemas, examination) if Side.HISTORY in request.sides else None
        sides: dict[Side, Snapshot] = {}
        if history is not None:
            sides[Side.HISTORY] = history.snapshot
        other = live or (history.snapshot if history else None)
        models = _models(workshop, examination, configurations, other, stack)
        if models is not None and Side.MODELS in request.sides:
            sides[Side.MODELS] = models.snapshot
        judge = None if models is None else models.judge
        excluded = {each.version_table for each in configurations} or {"public.alembic_version"}
        owner = live.main_owner if live is not None else None
        if owner is not None:
            sides = {side: snapshot.with_owner(workshop.creator, owner) for side, snapshot in sides.items()}
        if live is not None:
            sides[Side.LIVE] = live
        sides = {side: snapshot.without(excluded) for side, snapshot in sides.items()}
        current: tuple[str, ...] = ()
        if live is not None and request.live is not None:
            current = _standing(request, excluded, examination)
        yield _Gathered(workshop, sides, Filters(configurations), history, judge, current)


def _read_live(target: Target) -> Snapshot:
    with connect(target, application_name="schemactl drift", autocommit=True) as connection:
        try:
            return read_snapshot(connection)
        except psycopg.Error as error:
            raise translate(error) or error from error


def _history(
    request: Request, workshop: Workshop, schemas: Collection[str], examination: Examination
) -> History | None:
    try:
        return replay(request.project, workshop, schemas=schemas, report=request.report)
    except (RevisionError, ConfigError) as error:
        # An env.py that fails fails here too.
        if error.message not in {fault.message for fault in examination.faults}:
            examination.faults.append(error)
        return None


def _configurations(
    request: Request, workshop: Workshop, examination: Examination, stack: ExitStack
) -> tuple[Configuration, ...]:
    @cache
    def empty() -> Target:
        return stack.enter_context(workshop.database(lambda _: None))

    try:
        return capture(request.project, empty)
    except ConfigError as error:
        examination.faults.append(error)
        return ()


def _models(
    workshop: Workshop,
    examination: Examination,
    configurations: Sequence[Configuration],
    other: Snapshot | None,
    stack: ExitStack,
) -> Models | None:
    """The models; needed for what they can try out even when only the others are compared."""
    metadata = [each for configuration in configurations for each in configuration.metadata]
    if not metadata:
        return None
    try:
        schemas = {each.version_schema for each in configurations}
        models = stack.enter_context(made_models(workshop, metadata, schemas=schemas, extensions_of=other))
    except ModelsError as error:
        examination.faults.append(error)
        return None
    if models.extensions:
        examination.notes.append(
            "The models need extensions that they do not make; these were installed for them: "
            f"{', '.join(models.extensions)}."
        )
    return models


def _standing(request: Request, excluded: set[str], examination: Examination) -> tuple[str, ...]:
    """Revisions that the live database is at, read from its version table; a role that may not read it is no fault."""
    assert request.live is not None
    current: set[str] = set()
    with connect(request.live, application_name="schemactl drift", autocommit=True) as connection:
        for table in excluded:
            try:
                # The name is quoted where it was captured.
                rows = connection.execute(f"SELECT version_num FROM {table}")  # noqa: S608
                current |= {row[0] for row in rows}
            except psycopg.errors.UndefinedTable:
                continue
            except psycopg.errors.InsufficientPrivilege:
                examination.notes.append(
                    f"The role may not read {table}, so the revision that the database is at is unknown."
                )
                return ()
    try:
        pending = request.project.pending(tuple(sorted(current)))
    except SchemaError as error:
        examination.notes.append(f"{error.message}. {error.hint}")
        return ()
    if pending and current:
        examination.notes.append(
            f"The database is at {', '.join(sorted(current))}; {len(pending)} later revisions are pending, so what "
            "they change is listed as drift too: `schemactl upgrade` first."
        )
    return tuple(sorted(current))


def _pairs(sides: Sequence[Side]) -> list[Pair]:
    if len(sides) == 3:
        return [(Side.MODELS, Side.HISTORY), (Side.HISTORY, Side.LIVE)]
    return [(sides[0], sides[1])]


def _compared(sides: dict[Side, Snapshot], pair: Pair, gathered: _Gathered) -> list[Difference]:
    first, second = sides[pair[0]], sides[pair[1]]
    differences = compare(first, second, judge=gathered.judge)
    if first.major != second.major:
        return [each for each in differences if comparable(each)]
    if Side.LIVE in pair and gathered.workshop.like is None:
        # The scratch database could not be made like the live one.
        return [each for each in differences if each.kind != "database"]
    return differences


def _sort_out(
    request: Request,
    examination: Examination,
    findings: Sequence[Finding],
    entries: Sequence[Acceptance],
    current: tuple[str, ...],
) -> None:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    alive = []
    for entry in entries:
        if entry.expired(today, request.project, current):
            examination.stale.append((entry, f"expired at {entry.expires}"))
        else:
            alive.append(entry)
    for finding in findings:
        accepted = next((entry for entry in alive if entry.covers(finding.difference)), None)
        if finding.difference.equivalent is not None:
            examination.equivalent.append(finding)
        elif accepted is not None:
            examination.accepted.append((finding, accepted))
        else:
            examination.findings.append(finding)
    # Only a comparison with everything tells that an entry is not needed any more.
    if set(examination.sides) == set(Side):
        real = [each.difference for each in findings if each.difference.equivalent is None]
        examination.stale += [(entry, "matches no difference any more") for entry in unused(alive, real)]
