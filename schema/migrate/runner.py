"""Runs revisions of any Alembic project, one after the other, and says which one failed and what stands."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.util import CommandError

from schema.errors import ConfigError, DatabaseError, LockTimeoutError, RevisionError, SchemaError, UsageError
from schema.migrate.project import Project, Revision
from schema.migrate.settings import ATTRIBUTE, Caller
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


@dataclass(frozen=True)
class VersionTable:
    """What a database says of itself: its revisions, and the name of the table that holds them."""

    heads: tuple[str, ...]
    name: str


def upgrade(
    project: Project,
    target: Target,
    destination: str = "head",
    *,
    on_step: Callable[[Step], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> Run:
    """Upgrade a database. `on_step` is called before each revision and after its commit, `report` with messages.

    Raises:
        UsageError: the destination is empty.
        RevisionError: it is unknown, or a revision failed. What was applied before it stands committed.
        LockTimeoutError: a lock, or the turn to run, was not to be had in time.
        DatabaseError: the database refused otherwise; the class says how.
    """
    return _Runner(project, target, on_step, report).run(
        destination,
        lambda heads: project.script._upgrade_revs(destination, heads),  # noqa: SLF001
    )


def downgrade(
    project: Project,
    target: Target,
    destination: str,
    *,
    on_step: Callable[[Step], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> Run:
    """Downgrade a database; like `upgrade`."""
    return _Runner(project, target, on_step, report).run(
        destination,
        lambda heads: project.script._downgrade_revs(destination, heads),  # noqa: SLF001
    )


def version_table(project: Project, target: Target) -> VersionTable:
    """Look up which revisions a database is at, through the project's own environment. Changes nothing.

    Raises:
        DatabaseError: the database cannot be reached or read.
        ConfigError: the environment fails.
    """
    found: list[VersionTable] = []

    def look(heads: Any, context: MigrationContext) -> Iterable[RevisionStep]:
        found.append(VersionTable(tuple(sorted(heads)), context.version_table))
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
    on_step: Callable[[Step], None]
    report: Callable[[str], None]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    done: list[Step] = field(default_factory=list)
    under_way: Step | None = None

    def run(self, destination: str, plan: Callable[[Any], Sequence[RevisionStep]]) -> Run:
        if not destination.strip():
            raise UsageError("the revision to go to is empty", hint="Give an id, head, base, or a number of steps.")
        started = time.monotonic()

        # Alembic asks for the next step after it has committed the one before, if the project has a transaction for
        # each revision.
        def steps(heads: Any, context: MigrationContext) -> Iterator[RevisionStep]:
            self.before = self.after = tuple(sorted(heads))
            self.project.check_known(self.before)
            planned = plan(heads)
            for number, step in enumerate(planned, start=1):
                began = time.monotonic()
                self.under_way = Step(Revision.of(step.revision), number, len(planned))
                self.on_step(self.under_way)
                yield step
                applied = Step(self.under_way.revision, number, len(planned), time.monotonic() - began)
                self.under_way = None
                self.done.append(applied)
                self.on_step(applied)
            self.after = tuple(sorted(context.get_current_heads()))

        try:
            _run_environment(self.project, self.target, self.report, steps, destination_rev=destination)
        except Exception as error:
            raise self._explained(error) from error
        return Run(self.before, self.after, tuple(self.done), time.monotonic() - started)

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
        message = known.message if known is not None else f"{type(error).__name__}: {error}"
        return kind(f"revision {revision.id} ({revision.path}) failed: {message}; {self._standing()}", hint=hint)

    def _standing(self) -> str:
        if not self.done:
            return "no revision was committed by this run"
        return f"committed by this run: {', '.join(step.revision.id for step in self.done)}"


def _run_environment(
    project: Project, target: Target, report: Callable[[str], None], steps: Callable[..., Any], **options: Any
) -> None:
    config = Config(project.config.config_file_name, attributes={ATTRIBUTE: Caller(target, report)})
    # For the environments of other projects, which know nothing of the attribute.
    config.set_main_option("sqlalchemy.url", target.url.render_as_string(hide_password=False).replace("%", "%%"))
    with EnvironmentContext(config, project.script, fn=steps, **options):
        project.script.run_env()


def _translated(error: Exception, project: Project) -> SchemaError:
    if isinstance(error, SchemaError):
        return error
    if isinstance(error, CommandError):
        return RevisionError(str(error), hint=f"The history is {project.script.dir}.")
    return translate(error) or ConfigError(f"{project.script.dir}/env.py failed: {type(error).__name__}: {error}")


def _server_hint(cause: object) -> str:
    return (cause.diag.message_hint or "") if isinstance(cause, psycopg.Error) else ""
