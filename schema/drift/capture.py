"""Runs a project's env.py without letting it touch a database of its own, and keeps what it configures."""

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sa
from alembic.runtime.environment import EnvironmentContext
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.base import PGIdentifierPreparer

from schema.errors import ConfigError, SchemaError
from schema.migrate.project import Project
from schema.migrate.settings import ATTRIBUTE, Caller
from schema.pg.target import DRIVER, Target

Filter = Callable[..., bool]


@dataclass(frozen=True)
class Configuration:
    """One call of `context.configure()` in an env.py."""

    metadata: tuple[sa.MetaData, ...]
    include_object: Filter | None
    include_name: Filter | None
    version_schema: str
    """Schema of the version table, quoted where needed: it is Alembic's, and neither metadata nor revisions make it."""
    version_table: str
    """Schema and name, quoted where needed."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """What is of interest here among the arguments of `context.configure()`."""
        given = options.get("target_metadata")
        metadata = () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
        quote = PGIdentifierPreparer(postgresql.dialect()).quote  # type: ignore[no-untyped-call]
        schema = quote(options.get("version_table_schema") or "public")
        table = quote(options.get("version_table") or "alembic_version")
        return cls(metadata, options.get("include_object"), options.get("include_name"), schema, f"{schema}.{table}")


def capture(project: Project, scratch: Callable[[], Target]) -> tuple[Configuration, ...]:
    """Run the project's env.py offline and return how it configures Alembic.

    Every PostgreSQL connection that it makes all the same goes to the database that `scratch` then makes, whichever
    URL it has. What it prints goes
    to stderr; nothing is written.

    Raises:
        ConfigError: env.py raised, or configures no metadata.
    """
    config = project.config
    where = f"{project.script.dir}/env.py"
    captured: list[Configuration] = []

    environment = EnvironmentContext(config, project.script, fn=lambda *_: (), as_sql=True, dont_mutate=True)
    alembics = environment.configure

    def configure(**keywords: Any) -> None:
        captured.append(Configuration.of(keywords))
        keywords.setdefault("output_buffer", io.StringIO())
        alembics(**keywords)

    # On the instance: Alembic's module of functions calls what it finds there, but serves this very class only.
    environment.configure = configure  # type: ignore[method-assign, assignment]
    before = config.attributes.get(ATTRIBUTE)
    buffer, config.output_buffer = config.output_buffer, io.StringIO()
    config.attributes[ATTRIBUTE] = Caller(Target(sa.URL.create(DRIVER), "nowhere: it runs offline"), lambda _: None)
    # The ini's own URL may be a placeholder, or name a driver that is not installed here.
    config.set_main_option("sqlalchemy.url", f"{DRIVER}://")
    try:
        with (
            redirected(scratch),
            redirect_stdout(sys.stderr),
            environment,
        ):
            project.script.run_env()
    except SchemaError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{where} failed: {type(error).__name__}: {error}",
            hint="It is run offline, as `alembic upgrade --sql` runs it.",
        ) from error
    finally:
        config.output_buffer = buffer
        if before is None:
            del config.attributes[ATTRIBUTE]
    if not any(each.metadata for each in captured):
        raise ConfigError(
            f"{where} configures no target_metadata", hint="Pass target_metadata to context.configure() in it."
        )
    return tuple(captured)


@contextmanager
def redirected(scratch: Callable[[], Target]) -> Iterator[None]:
    """Send every PostgreSQL connection that SQLAlchemy makes meanwhile to the scratch database."""

    def connect(dialect: sa.Dialect, _record: object, arguments: list[Any], keywords: dict[str, Any]) -> None:
        if dialect.name != "postgresql":
            raise ConfigError(f"the project connects to {dialect.name}", hint="Only PostgreSQL projects are supported.")
        given, named = dialect.create_connect_args(scratch().url.set(drivername=f"postgresql+{dialect.driver}"))
        arguments[:] = given
        keywords.clear()
        keywords.update(named)

    sa.event.listen(sa.Engine, "do_connect", connect)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "do_connect", connect)
