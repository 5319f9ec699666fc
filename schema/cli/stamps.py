"""Reading which revisions databases are stamped at."""

from collections.abc import Sequence


def read_stamps(urls: Sequence[str], version_table: str = "alembic_version") -> dict[str, list[str]]:
    """The revisions in each database's version table, by a name of the database without its password.

    A database without the table has none. One read-only SELECT per database: takes ACCESS SHARE on the version table,
    which waits only for somebody who locks all of it, ten seconds at most, and sees what is committed.

    Raises:
        DatabaseError: no connection, or no right to read the table.
        UsageError: the URL cannot be read.
    """
    stamps: dict[str, list[str]] = {}
    for url in urls:
        name, ids = _read(url, version_table.split("."))
        stamps[name] = ids
    return stamps


def _read(url: str, table: list[str]) -> tuple[str, list[str]]:
    from psycopg import errors, sql

    from schema.pg.connect import connect
    from schema.pg.target import Target

    target = Target.parse(url, "--url")
    query = sql.SQL("SELECT version_num FROM {} ORDER BY version_num").format(sql.Identifier(*table))
    with connect(target, autocommit=True, lock_timeout_ms=10_000, statement_timeout_ms=10_000) as database:
        try:
            return target.masked, [str(row[0]) for row in database.execute(query)]
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            return target.masked, []
