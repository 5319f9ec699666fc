"""Reads the parent table's keys in their order, some at a time, always after the last one read."""

from collections.abc import Iterator, Sequence

from psycopg import Connection, sql

from schema.backfill.job import Key, Parent, Row


def last(connection: Connection[Row], parent: Parent) -> str | None:
    """Return the text of the greatest key; None of an empty table.

    Who walks a table up to here comes to an end, however fast rows with greater keys arrive.
    """
    statement = sql.SQL("SELECT {key}::text FROM {table} ORDER BY {table}.{key} DESC LIMIT 1")
    with connection.transaction():
        row = connection.execute(
            statement.format(key=sql.Identifier(parent.key), table=sql.Identifier(parent.table))
        ).fetchone()
    return row[0] if row is not None else None


def lock(connection: Connection[Row], parent: Parent, after: str | None, upto: str | None, size: int) -> list[Key]:
    """Lock the next `size` parent rows FOR KEY SHARE, in the order of their keys, and return the keys.

    LIMIT counts after locking: a row deleted while we waited for it is left out, not counted.
    """
    return _pick(connection, parent, after, upto, size, sql.SQL("FOR KEY SHARE"))


def lock_these(connection: Connection[Row], parent: Parent, keys: Sequence[Key]) -> list[Key]:
    """Lock those of the parent rows that are still there FOR KEY SHARE, in the order of their keys; return the keys."""
    if not keys:
        return []
    statement = sql.SQL(
        "SELECT {key} FROM {table} WHERE {key} = ANY({keys}::text[]::{array}) ORDER BY {key} FOR KEY SHARE"
    ).format(
        key=sql.Identifier(parent.key),
        table=sql.Identifier(parent.table),
        keys=sql.Literal([str(key) for key in keys]),
        array=sql.SQL("{}[]").format(sql.Identifier(parent.key_type)),
    )
    return [row[0] for row in connection.execute(statement)]


def read(connection: Connection[Row], parent: Parent, after: str | None, upto: str | None, size: int) -> list[Key]:
    """Return the next `size` keys, without a lock."""
    return _pick(connection, parent, after, upto, size, sql.SQL(""))


def walk(connection: Connection[Row], parent: Parent, size: int) -> Iterator[list[Key]]:
    """Yield the parent keys that there are now, `size` at a time, each list read in a transaction of its own."""
    after: str | None = None
    upto = last(connection, parent)
    while True:
        with connection.transaction():
            keys = read(connection, parent, after, upto, size)
        if keys:
            yield keys
        if len(keys) < size:
            return
        after = str(keys[-1])


def _pick(
    connection: Connection[Row], parent: Parent, after: str | None, upto: str | None, size: int, locking: sql.SQL
) -> list[Key]:
    key = sql.Identifier(parent.key)
    bounds = [
        sql.SQL("{} {} {}::text::{}").format(key, operator, sql.Literal(bound), sql.Identifier(parent.key_type))
        for operator, bound in ((sql.SQL(">"), after), (sql.SQL("<="), upto))
        if bound is not None
    ]
    statement = sql.SQL("SELECT {key} FROM {table} WHERE {bounds} ORDER BY {key} LIMIT {size} {locking}").format(
        key=key,
        table=sql.Identifier(parent.table),
        bounds=sql.SQL(" AND ").join(bounds) if bounds else sql.SQL("true"),
        size=sql.Literal(size),
        locking=locking,
    )
    return [row[0] for row in connection.execute(statement)]
