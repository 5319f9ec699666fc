"""Makes a database of metadata, the way the project would: schemas, then create_all with its DDL events."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
import sqlalchemy as sa

from schema.drift.cache import cache_path, keep, load
from schema.drift.judge import Judge
from schema.drift.workshop import Workshop
from schema.errors import SchemaError
from schema.pg.catalog import Snapshot, read_snapshot
from schema.pg.catalog.extensions import Extension
from schema.pg.catalog.store import dump_snapshot, load_snapshot
from schema.pg.target import DRIVER

_LACKING = (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedFunction)


class ModelsError(SchemaError):
    """The metadata cannot be created in an empty database."""

    default_hint = (
        "What it needs beside tables (functions, extensions, roles) must be made by a DDL event of the metadata."
    )


@dataclass(frozen=True)
class Models:
    """What the models make of an empty database."""

    snapshot: Snapshot
    extensions: tuple[str, ...]
    """Extensions that had to be installed for them."""
    judge: Judge
    """Tries texts out in a database with the models in it, which is made when it is first asked."""


@contextmanager
def made_models(
    workshop: Workshop, metadata: Sequence[sa.MetaData], *, schemas: Collection[str], extensions_of: Snapshot | None
) -> Iterator[Models]:
    """Create metadata in an empty database, or take from the cache what the same statements made before.

    `schemas`, quoted where needed, are made besides those of its tables.

    Raises:
        ModelsError: it cannot be created.
    """
    with ExitStack() as stack:

        @cache
        def made() -> tuple[psycopg.Connection, tuple[str, ...]]:
            return stack.enter_context(_made(workshop, metadata, schemas, extensions_of))

        judge = Judge(lambda: made()[0])
        statements = _statements(metadata)
        path = None
        if statements is not None:
            extensions = repr(sorted(map(repr, extensions_of.of(Extension)))) if extensions_of else ""
            parts = (extensions, repr(sorted(set(schemas))), *statements)
            path = cache_path("models", workshop, (each.encode() for each in parts))
            if (known := load(path)) is not None:
                yield Models(load_snapshot(known["snapshot"]), tuple(known["extensions"]), judge)
                return
        connection, needed = made()
        snapshot = read_snapshot(connection)
        if path is not None:
            keep(path, {"snapshot": dump_snapshot(snapshot), "extensions": needed})
        yield Models(snapshot, needed, judge)


@contextmanager
def _made(
    workshop: Workshop, metadata: Sequence[sa.MetaData], schemas: Collection[str], extensions_of: Snapshot | None
) -> Iterator[tuple[psycopg.Connection, tuple[str, ...]]]:
    with workshop.empty() as connection:

        def attempt() -> tuple[str, ...]:
            return create_models(metadata, connection, schemas=schemas, extensions_of=extensions_of)

        with workshop.roles_for(attempt, connection.rollback) as extensions:
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            try:
                yield driver, extensions
            finally:
                # Before the roles go: the transaction uses them.
                connection.rollback()


def _statements(metadata: Sequence[sa.MetaData]) -> list[str] | None:
    """All statements that create the metadata; None when code of the project takes part, which may do anything."""
    targets: list[sa.MetaData | sa.Table] = [*metadata, *(table for each in metadata for table in each.tables.values())]
    if not all(_is_plain(listener) for target in targets for listener in _listeners(target)):
        return None
    statements: list[str] = []

    def execute(statement: Any, *_: object) -> None:
        statements.append(str(statement.compile(dialect=mock.dialect)))

    mock = sa.create_mock_engine(f"{DRIVER}://", execute)
    try:
        for each in metadata:
            each.create_all(mock, checkfirst=False)
    except (sa.exc.SQLAlchemyError, AttributeError):
        # Something asks the server: then the server is asked.
        return None
    # A table's indexes are a set, whose order is another one in every process.
    return sorted(statements)


def _listeners(target: sa.MetaData | sa.Table) -> Iterator[Any]:
    yield from target.dispatch.before_create
    yield from target.dispatch.after_create


def _is_plain(listener: Any) -> bool:
    if isinstance(listener, sa.DDL):
        return listener._ddl_if is None  # noqa: SLF001 - execute_if() has no public form to ask
    return str(getattr(listener, "__module__", "")).startswith("sqlalchemy.")


def create_models(
    metadata: Iterable[sa.MetaData],
    connection: sa.Connection,
    *,
    schemas: Collection[str],
    extensions_of: Snapshot | None,
) -> tuple[str, ...]:
    """Create everything that the metadata describes, in the connection's transaction, which is left open.

    Extensions are rarely part of metadata although its types and operator classes come from them: when it cannot be
    created without, those of `extensions_of` are installed first.

    Returns:
        Names of the extensions that were needed.

    Raises:
        ModelsError: it cannot be created.
    """
    metadata = tuple(metadata)
    try:
        try:
            _create(connection, metadata, schemas, ())
        except sa.exc.DBAPIError as error:
            found = () if extensions_of is None else tuple(extensions_of.of(Extension))
            extensions = sorted((each for each in found if each.name != "plpgsql"), key=lambda each: each.name)
            if not extensions or not isinstance(error.orig, _LACKING):
                raise
            connection.rollback()
            _create(connection, metadata, schemas, extensions)
            return tuple(extension.name for extension in extensions)
    except (sa.exc.SQLAlchemyError, psycopg.Error) as error:
        raise _explained(error) from error
    return ()


def _create(
    connection: sa.Connection,
    metadata: tuple[sa.MetaData, ...],
    schemas: Collection[str],
    extensions: Iterable[Extension],
) -> None:
    quote = connection.dialect.identifier_preparer.quote
    needed = {quote(table.schema) for each in metadata for table in each.tables.values() if table.schema}
    for schema in sorted(
        needed | set(schemas) | {extension.schema for extension in extensions} - {"public", "pg_catalog"}
    ):
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for extension in extensions:
        into = f"{extension.name} WITH SCHEMA {extension.schema}"
        connection.exec_driver_sql(f"CREATE EXTENSION IF NOT EXISTS {into} CASCADE")
    for each in metadata:
        each.create_all(connection)


def _explained(error: Exception) -> ModelsError:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    first = str(cause).strip().partition("\n")[0]
    return ModelsError(f"the models cannot be created in an empty database: {type(cause).__name__}: {first}")
