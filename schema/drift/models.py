"""Makes a database of metadata, the way the project would: schemas, then create_all with its DDL events."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import sqlalchemy as sa

from schema.drift.workshop import Workshop
from schema.errors import SchemaError
from schema.pg.catalog import Snapshot
from schema.pg.catalog.extensions import Extension
from schema.pg.target import Target

_LACKING = (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedFunction)


class ModelsError(SchemaError):
    """The metadata cannot be created in an empty database."""

    default_hint = (
        "What it needs beside tables (functions, extensions, roles) must be made by a DDL event of the metadata."
    )


@dataclass(frozen=True)
class Models:
    """A transaction with the models in it, which the end of the block rolls back."""

    connection: psycopg.Connection
    extensions: tuple[str, ...]
    """Extensions that were installed for them."""


@contextmanager
def made_models(
    workshop: Workshop, metadata: Callable[[Target], Iterable[sa.MetaData]], *, extensions_of: Snapshot | None
) -> Iterator[Models]:
    """Create metadata in an empty database; `metadata` is called with it before anything is in it.

    Raises:
        ModelsError: it cannot be created.
    """
    with workshop.empty() as (target, connection):

        def attempt() -> tuple[str, ...]:
            return create_models(metadata(target), connection, extensions_of=extensions_of)

        with workshop.roles_for(attempt, connection.rollback) as extensions:
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            try:
                yield Models(driver, extensions)
            finally:
                # Before the roles go: the transaction uses them.
                connection.rollback()


def create_models(
    metadata: Iterable[sa.MetaData], connection: sa.Connection, *, extensions_of: Snapshot | None
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
            _create(connection, metadata, ())
        except sa.exc.DBAPIError as error:
            found = () if extensions_of is None else tuple(extensions_of.of(Extension))
            extensions = sorted((each for each in found if each.name != "plpgsql"), key=lambda each: each.name)
            if not extensions or not isinstance(error.orig, _LACKING):
                raise
            connection.rollback()
            _create(connection, metadata, extensions)
            return tuple(extension.name for extension in extensions)
    except (sa.exc.SQLAlchemyError, psycopg.Error) as error:
        raise _explained(error) from error
    return ()


def _create(connection: sa.Connection, metadata: tuple[sa.MetaData, ...], extensions: Iterable[Extension]) -> None:
    quote = connection.dialect.identifier_preparer.quote
    schemas = {quote(table.schema) for each in metadata for table in each.tables.values() if table.schema}
    for schema in sorted(schemas | {extension.schema for extension in extensions} - {"public", "pg_catalog"}):
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
