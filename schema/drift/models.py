"""Makes a database of metadata, the way the project would: schemas, then create_all with its DDL events."""

from collections.abc import Iterable

import psycopg
import sqlalchemy as sa

from schema.errors import SchemaError
from schema.pg.catalog import Snapshot
from schema.pg.catalog.extensions import Extension
from schema.pg.connect import engine
from schema.pg.target import Target


class ModelsError(SchemaError):
    """The metadata cannot be created in an empty database."""

    default_hint = (
        "What it needs beside tables (functions, extensions, roles) must be made by a DDL event of the metadata."
    )


def create_models(
    metadata: Iterable[sa.MetaData], target: Target, *, extensions_of: Snapshot | None
) -> tuple[str, ...]:
    """Create everything that the metadata describes.

    Extensions are rarely part of metadata although its types and operator classes come from them: when it cannot be
    created without, those of `extensions_of` are installed first.

    Returns:
        Names of the extensions that were needed.

    Raises:
        ModelsError: it cannot be created.
    """
    metadata = tuple(metadata)
    made = engine(target, application_name="schemactl drift")
    try:
        _create(made, metadata, ())
    except sa.exc.DBAPIError as error:
        extensions = () if extensions_of is None else tuple(sorted(extensions_of.of(Extension), key=lambda e: e.name))
        if not extensions or not isinstance(
            error.orig, psycopg.errors.UndefinedObject | psycopg.errors.UndefinedFunction
        ):
            raise _explained(error) from error
        try:
            _create(made, metadata, extensions)
        except (sa.exc.SQLAlchemyError, psycopg.Error) as again:
            raise _explained(again) from again
        return tuple(extension.name for extension in extensions if extension.name != "plpgsql")
    except sa.exc.SQLAlchemyError as error:
        raise _explained(error) from error
    return ()


def _create(made: sa.Engine, metadata: tuple[sa.MetaData, ...], extensions: tuple[Extension, ...]) -> None:
    # One transaction: a failure leaves the database as empty as it was.
    with made.begin() as connection:
        quote = connection.dialect.identifier_preparer.quote
        for schema in sorted({table.schema for each in metadata for table in each.tables.values() if table.schema}):
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
        for extension in extensions:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {extension.schema}") if extension.schema not in {
                "public",
                "pg_catalog",
            } else None
            connection.exec_driver_sql(
                f"CREATE EXTENSION IF NOT EXISTS {extension.name} WITH SCHEMA {extension.schema} CASCADE"
            )
        for each in metadata:
            each.create_all(connection)


def _explained(error: Exception) -> ModelsError:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
    first = str(cause).strip().partition("\n")[0]
    return ModelsError(f"the models cannot be created in an empty database: {type(cause).__name__}: {first}")
