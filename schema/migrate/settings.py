"""What `migrations/env.py` runs: the connection, its timeouts, one runner at a time, offline scripts."""

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO
from logging.config import fileConfig
from pathlib import Path
from typing import Any, Final, Self

import sqlalchemy as sa
from alembic import context
from alembic.autogenerate.api import AutogenContext
from alembic.config import Config
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.util import CommandError

from schema.errors import ConfigError, SchemaError
from schema.migrate.guard import Guard
from schema.migrate.lock import RunnerLock, only_runner
from schema.migrate.offline import scripted
from schema.migrate.plan import check_rows, rows_after
from schema.migrate.project import check_known, config_path, ini_option, state_dir
from schema.pg.connect import engine
from schema.pg.errors import translate
from schema.pg.target import Target, named_target, resolve_target

ATTRIBUTE: Final = "schemactl"
"""Key of the `Caller` in `Config.attributes`; without it the environment runs for plain `alembic`."""

YES: Final = "yes"
"""`alembic -x yes` goes on where the plan is refused, as `schemactl --yes` does."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caller:
    """Who runs the environment when it is not plain `alembic`: the database it chose, and where messages go.

    It holds the runner's lock, and guards the steps.
    """

    target: Target
    report: Callable[[str], None]


@dataclass(frozen=True)
class RunSettings:
    """How a run behaves on a live database; options of the ini."""

    lock_timeout_ms: int
    statement_timeout_ms: int
    runner_wait_s: int
    lock_retry_s: int
    """How long a revision that does not get a lock is tried again."""

    @classmethod
    def read(cls, config: Config) -> Self:
        """Read the options, with defaults for those left out.

        Raises:
            ConfigError: one is not a whole number of zero or more.
        """
        return cls(
            _number(config, "lock_timeout_ms", 2_000),
            _number(config, "statement_timeout_ms", 600_000),
            _number(config, "runner_wait_s", 600),
            _number(config, "lock_retry_s", 60),
        )

    @property
    def timeouts(self) -> dict[str, str]:
        """The settings of a run's connection."""
        return {
            "lock_timeout": f"{self.lock_timeout_ms}ms",
            "statement_timeout": f"{self.statement_timeout_ms}ms",
        }


def run_environment(metadata: sa.MetaData) -> None:
    """Run the Alembic command that is under way, on the database that every command would choose.

    A connection or engine in `Config.attributes["connection"]` is used instead, as its owner set it up: without
    timeouts and without the runner's lock.
    """
    config = context.config
    caller = config.attributes.get(ATTRIBUTE)
    given = config.attributes.get("connection")
    # Only the command line: a program that runs Alembic has its own logging.
    if config.cmd_opts is not None and config.config_file_name and config.file_config.has_section("loggers"):
        fileConfig(config.config_file_name, disable_existing_loggers=False)
    try:
        if context.is_offline_mode():
            _offline(config, caller, metadata)
        elif isinstance(given, sa.Connection):
            _run(given, metadata, None)
        elif isinstance(given, sa.Engine):
            with given.connect() as connection:
                _run(connection, metadata, None)
        else:
            _online(config, caller, metadata)
    except SchemaError as error:
        if caller is not None:
            raise
        # Alembic prints its own kind of error as one line and anything else as a traceback.
        raise CommandError(_paragraph(error)) from error
    except sa.exc.DBAPIError as error:
        known = translate(error)
        if config.cmd_opts is None or known is None:
            raise
        raise CommandError(f"{_paragraph(known)} `alembic --raiseerr` shows the statement.") from error


def ini_target(config: Config) -> Target:
    """The database that plain `alembic` means: chosen as `schemactl` does, without a --url.

    Raises:
        SchemaError: see `resolve_target`.
    """
    ini_url = ini_option(config, "sqlalchemy.url")
    if named := named_target(None, ini_url=ini_url):
        return named
    bindir = os.environ.get("SCHEMACTL_PG_BINDIR")
    return resolve_target(
        None,
        ini_url=ini_url,
        state_dir=state_dir(config_path(config)),
        pg_bindir=Path(bindir) if bindir else None,
    )


def _online(config: Config, caller: Caller | None, metadata: sa.MetaData) -> None:
    settings = RunSettings.read(config)
    target = caller.target if caller is not None else ini_target(config)
    if caller is None:
        log.info("Database: %s (from %s)", target.masked, target.source)
    guarded: Callable[[Any], Any] | None = None
    with ExitStack() as stack:
        if caller is None and _changes_database():
            lock = stack.enter_context(only_runner(target, wait_s=settings.runner_wait_s, report=log.info))
            guarded = functools.partial(_guarded, config, settings, lock)
        made = engine(
            target,
            application_name="schemactl migrate",
            lock_timeout_ms=settings.lock_timeout_ms,
            statement_timeout_ms=settings.statement_timeout_ms,
        )
        try:
            connection = stack.enter_context(made.connect())
        except sa.exc.DBAPIError as error:
            raise translate(error) or error from error
        _run(connection, metadata, guarded)


def _run(connection: sa.Connection, metadata: sa.MetaData, guarded: Callable[[Any], Any] | None) -> None:
    context.configure(connection=connection, **_options(metadata))
    if guarded is not None:
        migration = context.get_context()
        migration._migrations_fn = guarded(migration._migrations_fn)  # noqa: SLF001
    with context.begin_transaction():
        context.run_migrations()


def _guarded(config: Config, settings: RunSettings, lock: RunnerLock, steps: Callable[..., Any]) -> Callable[..., Any]:
    """What Alembic asks for the steps of `upgrade`, `downgrade` and `stamp`, with the guard around each."""

    def guarded(heads: Any, migration: MigrationContext) -> Iterator[MigrationStep]:
        try:
            planned = list(steps(heads, migration))
        except CommandError:
            check_known(context.script, config, heads)
            raise
        revisions = [step for step in planned if isinstance(step, RevisionStep)]
        if YES not in context.get_x_argument(as_dictionary=True):
            _check_plan(config, migration, tuple(heads), revisions)
        guard = Guard(migration, report=log.info, retry_s=settings.lock_retry_s, timeouts=settings.timeouts, lock=lock)
        with guard.listening():
            guard.start(revisions)
            for step in planned:
                yield guard.step(step) if isinstance(step, RevisionStep) else step

    return guarded


def _check_plan(
    config: Config, migration: MigrationContext, heads: tuple[str, ...], planned: Sequence[RevisionStep]
) -> None:
    """Refuse what `schemactl` refuses without --yes: revisions that would be skipped, several version rows."""
    if not planned:
        return
    check_rows(heads, rows_after(heads, planned), getattr(config.cmd_opts, "revision", "this run"))
    if heads and planned[0].is_upgrade:
        # git, which is asked then, is not looked for when a new database is made.
        from schema.migrate.missing import Sources, layout_of, ran_late, refuse_skipped, skipped_in

        layout = layout_of(context.script, config_path(config))
        refuse_skipped(skipped_in(layout, heads, ran_late(migration), Sources()))


def _offline(config: Config, caller: Caller | None, metadata: sa.MetaData) -> None:
    settings = RunSettings.read(config)
    script = StringIO()
    # No URL: the script is made without a server, for whichever runs it.
    context.configure(
        dialect_name="postgresql",
        literal_binds=True,
        # The driver's own style would double every percent sign.
        dialect_opts={"paramstyle": "named"},
        output_buffer=script,
        **_options(metadata),
    )
    migration = context.get_context()
    migration.impl.static_output(
        "-- Run by: psql -X -v ON_ERROR_STOP=1 -f FILE, with the timeouts in the environment:\n"
        f"-- PGOPTIONS='-c lock_timeout={settings.lock_timeout_ms} "
        f"-c statement_timeout={settings.statement_timeout_ms}'"
    )
    if caller is None:
        steps: Any = migration._migrations_fn  # noqa: SLF001
        migration._migrations_fn = lambda heads, of: scripted(list(steps(heads, of)), heads, of)  # type: ignore[assignment]  # noqa: SLF001
    with context.begin_transaction():
        context.run_migrations()
    # Whole or not at all.
    (config.output_buffer or sys.stdout).write(script.getvalue())


def _options(metadata: sa.MetaData) -> dict[str, Any]:
    return {
        "target_metadata": metadata,
        "transaction_per_migration": True,
        # Alembic's own comparison of defaults fails at some changes of type; the last one compares them too.
        "autogenerate_plugins": ["alembic.autogenerate.*", "~alembic.autogenerate.defaults", "schema.drift"],
        "render_item": _render_item,
        # Commands that only look must not make the version table.
        **({} if _changes_database() else {"dont_mutate": True}),
    }


def _changes_database() -> bool:
    """Whether the command moves the database to a revision: upgrade, downgrade and stamp have a destination."""
    try:
        context.get_revision_argument()
    except KeyError:
        return False
    except CommandError:
        # A relative one, such as +1, which only the database can resolve.
        return True
    return True


def _render_item(kind: str, item: Any, _autogen: AutogenContext) -> str | bool:
    """Write a column type of the models as the plain type it stores: history does not import living code."""
    if kind == "type" and isinstance(item, sa.types.TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    return False


def _paragraph(error: SchemaError) -> str:
    return f"{error.message.rstrip('.')}. {error.hint}".rstrip()


def _number(config: Config, name: str, default: int) -> int:
    text = ini_option(config, name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{name} in {config_path(config)} is not a whole number: {text!r}")
    return int(text)
