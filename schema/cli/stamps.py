"""Reading which revisions databases are stamped at."""

from collections.abc import Sequence

from schema.errors import DatabaseUnreachableError, UsageError


def read_stamps(urls: Sequence[str], version_table: str = "alembic_version") -> dict[str, list[str]]:
    """The revisions in each database's version table, by a name of the database without its password.

    A database without the table has none. One read-only SELECT per database: takes ACCESS SHARE on the version table,
    which waits only for a migration that drops it, and sees what is committed.

    Raises:
        DatabaseUnreachableError: no connection.
        UsageError: the URL cannot be read.
    """
    stamps: dict[str, list[str]] = {}
    for url in urls:
        name, ids = _read(url, version_table.split("."))
        if name in stamps:
            name = f"{name} (number {len(stamps) + 1})"
        stamps[name] = ids
    return stamps


def _read(url: str, table: list[str]) -> tuple[str, list[str]]:
    import psycopg
    from psycopg import conninfo, sql

    scheme, separator, rest = url.partition("://")
    if separator:
        # SQLAlchemy's dialect+driver; libpq knows the dialect only.
        url = f"{scheme.partition('+')[0]}://{rest}"
    try:
        conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # The driver's message may quote the URL, password included.
        del error
        raise UsageError("a --url is no PostgreSQL URL", hint="postgresql://user@host/database") from None
    try:
        with psycopg.connect(url, connect_timeout=10, autocommit=True, application_name="schemactl") as database:
            name = f"{database.info.dbname} on {database.info.host or 'the local socket'}"
            try:
                query = sql.SQL("SELECT version_num FROM {} ORDER BY version_num").format(sql.Identifier(*table))
                return name, [str(row[0]) for row in database.execute(query)]
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return name, []
    except psycopg.OperationalError as error:
        raise DatabaseUnreachableError(f"a database of --url cannot be reached: {str(error).strip()}") from error
