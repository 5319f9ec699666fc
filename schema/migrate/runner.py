"""Runs revisions of any Alembic project, one after the other, and says which one failed and what stands."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from typing import Any, Final, TextIO

import psycopg
import sqlalchemy as sa
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.util import CommandError

from schema.errors import ConfigError, DatabaseError, LockTimeoutError, RevisionError, SchemaError, UsageError
from schema.migrate.guard import Guard
from schema.migrate.journal import Journal, Unfinished, numbered
from schema.migrate.lock import RunnerLock, only_runner
from schema.migrate.missing import Sources, layout_of, missing_in, note_late, ran_late, refuse_skipped, skipped_in
from schema.migrate.offline import scripted
from schema.migrate.plan import check_rows, check_steps, rows_after
from schema.migrate.project import Project, Revision, alembic_config
from schema.migrate.settings import ATTRIBUTE, Caller, RunSettings
from schema.pg.connect import connection_options, is_pooled
from schema.pg.errors import translate
from schema.pg.target import Target

DUPLICATE_OBJECTS: Final = frozenset({"42P07", "42710", "42723"})
"""SQLSTATEs of a relation, another object or a function that is there already."""


@dataclass(frozen=True)
class Step:
    """One revision of a run, about to be applied or, with `seconds`, applied and committed."""

    revision: Revision
    number: int
    total: int
    seconds: float | None = None


@dataclass(frozen=True)
class Run:
    """What a run did: the revisions the database was at, those it is at, and the steps between."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    steps: tuple[Step, ...]
    seconds: float
    left: tuple[Revision, ...] = ()
    """Not begun, because the time was up."""


@dataclass(frozen=True)
class Options:
    """How a run differs from the plain one."""

    yes: bool = False
    """Go on where several version rows would be left, or revisions skipped."""
    until: datetime | None = None
    """Begin no revision after this moment."""
    missing: bool = False
    """Before an upgrade, run what came in below the database's revisions."""
    sources: Sources = field(default_factory=Sources)
    guarded: bool = True
    """Retry what gets no lock, go on after an interruption, keep other runners out.

    Without, a database that nobody else uses gets what plain Alembic sends.
    """


@dataclass(frozen=True)
class VersionTable:
    """What a database says of itself: its revisions, and the name of the table that holds them."""

    heads: tuple[str, ...]
    name: str
    ran_late: tuple[str, ...] = ()
    """Revisions below the heads that ran after them."""
    unfinished: Unfinished | None = None


def upgrade(
    project: Project,
    target: Target,
    destination: str = "head",
    *,
    options: Options = Options(),
    on_step: Callable[[Step], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> Run:
    """Upgrade a database. `on_step` is called before each revision and after its commit, `report` with messages.

    Raises:
        UsageError: the destination is empty.
        RevisionError: it is unknown, or a revision failed. What was applied before it stands committed.
        RefusedPlanError: it would leave several version rows, or a number of steps is ambiguous.
        SkippedRevisionsError: revisions below the database's own never ran.
        LockTimeoutError: a lock, or the turn to run, was not to be had in time.
        DatabaseError: the database refused otherwise; the class says how.
    """
    return _Runner(project, target, options, on_step, report, is_upgrade=True).run(destination)


def downgrade(
    project: Project,
    target: Target,
    destination: str,
    *,
    options: Options = Options(),
    on_step: Callable[[Step], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> Run:
    """Downgrade a database; like `upgrade`."""
    return _Runner(project, target, options, on_step, report, is_upgrade=False).run(destination)


def script(project: Project, target: Target, destination: str, *, is_upgrade: bool, yes: bool = False) -> str:
    """The SQL that a run would execute, from where the database is. Changes nothing.

    Raises:
        RevisionError: the plan is refused, or a revision cannot be written without a connection.
        DatabaseError: the database cannot be reached or read.
    """
    heads = version_table(project, target).heads
    _check_destination(destination)

    def steps(at: Any, migration: MigrationContext) -> Iterator[MigrationStep]:
        return scripted(_planned(project, tuple(at), destination, is_upgrade=is_upgrade, yes=yes), heads, migration)

    printed = StringIO()
    try:
        _run_environment(
            project,
            target,
            lambda _: None,
            steps,
            printed=printed,
            as_sql=True,
            starting_rev=heads or None,
            destination_rev=destination,
        )
    except Exception as error:
        raise _translated(error, project) from error
    return printed.getvalue()


def offline(project: Project, target: Target, revision: Revision) -> str:
    """The SQL of one revision's upgrade, from its parents, as `alembic upgrade --sql` writes it. Reads no database.

    Raises:
        RevisionError: it cannot be written without a connection.
        ConfigError: the environment fails.
    """
    script = project.script.get_revision(revision.id)
    assert script is not None
    parents = script._all_down_revisions  # noqa: SLF001 - parents and dependencies, labels resolved

    def steps(_: Any, migration: MigrationContext) -> Iterator[MigrationStep]:
        step = RevisionStep(project.script.revision_map, script, True)
        return scripted([step], tuple(parents), migration)

    printed = StringIO()
    try:
        _run_environment(
            project,
            target,
            lambda _: None,
            steps,
            printed=printed,
            as_sql=True,
            starting_rev=tuple(parents) or None,
            destination_rev=revision.id,
        )
    except Exception as error:
        raise _translated(error, project) from error
    return printed.getvalue()


def version_table(project: Project, target: Target) -> VersionTable:
    """Look up which revisions a database is at, through the project's own environment. Changes nothing.

    Raises:
        DatabaseError: the database cannot be reached or read.
        ConfigError: the environment fails.
    """
    found: list[VersionTable] = []

    def look(heads: Any, context: MigrationContext) -> Iterable[RevisionStep]:
        late, unfinished = tuple(ran_late(context)), Journal(context).read()
        found.append(VersionTable(tuple(sorted(heads)), context.version_table, late, unfinished))
        return ()

    try:
        _run_environment(project, target, lambda _: None, look, dont_mutate=True)
    except Exception as error:
        raise _translated(error, project) from error
    if not found:
        raise ConfigError(f"{project.script.dir}/env.py ran no migrations", hint="It must call run_migrations().")
    return found[0]


@dataclass
class _Runner:
    project: Project
    target: Target
    options: Options
    on_step: Callable[[Step], None]
    report: Callable[[str], None]
    is_upgrade: bool
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    done: list[Step] = field(default_factory=list)
    left: tuple[Revision, ...] = ()
    under_way: Step | None = None
    guard: Guard | None = None

    def run(self, destination: str) -> Run:
        _check_destination(destination)
        started = time.monotonic()
        settings = RunSettings.read(self.project.config)
        try:
            with ExitStack() as stack:
                lock = None
                if self.options.guarded:
                    lock = stack.enter_context(
                        only_runner(self.target, wait_s=settings.runner_wait_s, report=self.report)
                    )
                # The environment of another project knows nothing of ours: its timeouts come with the URL.
                timeouts = {} if lock is not None and is_pooled(lock.connection) else settings.timeouts
                _run_environment(
                    self.project,
                    self.target,
                    self.report,
                    lambda heads, migration: self._steps(heads, migration, destination, settings, lock),
                    timeouts=timeouts,
                    destination_rev=destination,
                )
        except Exception as error:
            raise self._explained(error) from error
        return Run(self.before, self.after, tuple(self.done), time.monotonic() - started, self.left)

    def _steps(
        self, heads: Any, migration: MigrationContext, destination: str, settings: RunSettings, lock: RunnerLock | None
    ) -> Iterator[RevisionStep]:
        assert migration.connection is not None
        if lock is not None and not lock.guards(migration.connection):
            raise ConfigError(
                f"{self.project.script.dir}/env.py connects to another database than {self.target.masked}",
                hint="Let it take sqlalchemy.url from the configuration, or give the URL that it takes with --url.",
            )
        self.before = self.after = tuple(sorted(heads))
        planned = _planned(self.project, self.before, destination, is_upgrade=self.is_upgrade, yes=self.options.yes)
        late = self._late(migration) if self.is_upgrade and (planned or self.options.missing) else []
        if lock is not None:
            self.guard = Guard(
                migration, report=self.report, retry_s=settings.lock_retry_s, timeouts=settings.timeouts, lock=lock
            )
        steps = [*late, *planned]
        with self.guard.listening() if self.guard is not None else nullcontext():
            if self.guard is not None:
                self.guard.start(steps)
            for number, step in enumerate(steps, start=1):
                if self.options.until is not None and datetime.now().astimezone() >= self.options.until:
                    self.left = tuple(Revision.of(rest.revision) for rest in steps[number - 1 :])
                    break
                began = time.monotonic()
                self.under_way = Step(Revision.of(step.revision), number, len(steps))
                self.on_step(self.under_way)
                guarded = self.guard.step(step) if self.guard is not None else step
                if number <= len(late):
                    self._run_late(migration, guarded)
                else:
                    # Alembic asks for the next step after it has committed this one, if the project has a transaction
                    # for each revision.
                    yield guarded
                applied = Step(self.under_way.revision, number, len(steps), time.monotonic() - began)
                self.under_way = None
                self.done.append(applied)
                self.on_step(applied)
        self.after = tuple(sorted(migration.get_current_heads()))

    def _late(self, migration: MigrationContext) -> list[RevisionStep]:
        """The revisions to run late; refuses when there are some and nobody asked for that."""
        if self.options.yes and not self.options.missing:
            return []
        layout = layout_of(self.project.script, self.project.ini)
        found = skipped_in(layout, self.before, ran_late(migration), self.options.sources)
        if not self.options.missing:
            refuse_skipped(found)
            return []
        scripts = [self.project.script.get_revision(id_) for id_ in missing_in(found)]
        return [RevisionStep(self.project.script.revision_map, script, True) for script in scripts]

    def _run_late(self, migration: MigrationContext, step: RevisionStep) -> None:
        """Run a revision in a transaction of its own that notes it, and leaves the version table's rows alone."""
        with migration.begin_transaction(_per_migration=True):
            step.migration_fn()
            note_late(migration, step.revision.revision)

    def _explained(self, error: Exception) -> SchemaError:
        if self.under_way is None:
            return _translated(error, self.project)
        revision = self.under_way.revision
        known = error if isinstance(error, SchemaError) else translate(error)
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        kind: type[SchemaError] = RevisionError
        hint = _server_hint(cause) or "Remove the cause, then run the command again: it goes on from there."
        if known is not None and type(known) is not DatabaseError:
            kind, hint = type(known), known.hint
        if isinstance(known, LockTimeoutError):
            hint = (
                "A transaction holds a table it needs: run the command again, at a quieter time if that happens often."
            )
        elif (
            isinstance(cause, psycopg.Error) and cause.sqlstate in DUPLICATE_OBJECTS and not (self.before or self.done)
        ):
            hint = (
                "No revision is recorded in the database, yet something of this history is in it. If the schema was "
                "made another way, `alembic stamp REVISION` says where it stands; else use an empty database."
            )
        elif isinstance(cause, psycopg.Error) and cause.sqlstate in DUPLICATE_OBJECTS and self.options.missing:
            hint = "It seems to be there already. `schemactl upgrade --yes` goes on without what was skipped."
        message = known.message if known is not None else f"{type(error).__name__}: {error}"
        if self.guard is not None and (standing := [one for one in self.guard.standing if one.kind != "again"]):
            message += "; of its statements these stand committed, and the next run goes on after them: "
            message += numbered(standing)
        return kind(f"revision {revision.id} ({revision.path}) failed: {message}; {self._standing()}", hint=hint)

    def _standing(self) -> str:
        ids = [step.revision.id for step in self.done]
        kept = len(ids) if self.guard is None or self.guard.own_transactions() else self.guard.kept
        stands = f"committed by this run: {', '.join(ids[:kept])}" if kept else "no revision was committed by this run"
        if kept < len(ids):
            stands += f", and {', '.join(ids[kept:])} went back with it, since env.py runs all in one transaction"
        return stands


def _check_destination(destination: str) -> None:
    if not destination.strip():
        raise UsageError("the revision to go to is empty", hint="Give an id, head, base, or a number of steps.")


def _planned(
    project: Project, heads: tuple[str, ...], destination: str, *, is_upgrade: bool, yes: bool
) -> list[RevisionStep]:
    project.check_known(heads)
    check_steps(project.script, heads, destination)
    # Alembic's own planning, which has no public name.
    plan = project.script._upgrade_revs if is_upgrade else project.script._downgrade_revs  # noqa: SLF001
    planned = list(plan(destination, heads))  # type: ignore[arg-type]
    if not yes:
        check_rows(heads, rows_after(heads, planned), destination)
    return planned


def _run_environment(
    project: Project,
    target: Target,
    report: Callable[[str], None],
    steps: Callable[..., Any],
    *,
    timeouts: Mapping[str, str] | None = None,
    printed: TextIO | None = None,
    **options: Any,
) -> None:
    attributes = {ATTRIBUTE: Caller(target, report)}
    config = alembic_config(project.ini, attributes=attributes, output_buffer=printed)
    # For the environments of other projects, which know nothing of the attribute.
    url = target.url.update_query_dict({"options": connection_options(target, timeouts)}) if timeouts else target.url
    config.set_main_option("sqlalchemy.url", url.render_as_string(hide_password=False).replace("%", "%%"))
    try:
        with redirect_stdout(sys.stderr), EnvironmentContext(config, project.script, fn=steps, **options):
            project.script.run_env()
    except SystemExit as error:
        # With no more than that the command would end, and with 0 where nobody gave a code.
        raise RevisionError(
            f"env.py or a revision of {project.script.dir} called sys.exit({error.code!r})",
            hint="Let it raise an error that says what is wrong.",
        ) from error


def _translated(error: Exception, project: Project) -> SchemaError:
    if isinstance(error, SchemaError):
        return error
    if isinstance(error, CommandError):
        return RevisionError(str(error), hint=f"The history is {project.script.dir}.")
    return translate(error) or ConfigError(f"{project.script.dir}/env.py failed: {type(error).__name__}: {error}")


def _server_hint(cause: object) -> str:
    return (cause.diag.message_hint or "") if isinstance(cause, psycopg.Error) else ""
