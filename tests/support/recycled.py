"""Databases at head that go from test to test, emptied in between: to clone one takes ten times as long."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psycopg
from psycopg import sql

# What a test may do to a schema leaves another row version in one of these; TRUNCATE and ANALYZE do not.
SCHEMA = """
    SELECT md5(string_agg(fact, ' ' ORDER BY fact)) FROM (
        SELECT concat_ws(' ', oid, relname, relnamespace, relowner, reltablespace, relacl, reloptions, relkind,
            relrowsecurity, relforcerowsecurity, relreplident, relchecks, relhastriggers) AS fact
        FROM pg_class WHERE oid >= 16384 AND relpersistence <> 't'
            AND relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg\\_%')
        UNION ALL
        SELECT concat_ws(' ', attrelid, attnum, a.xmin) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
        WHERE attrelid >= 16384 AND relpersistence <> 't'
            AND relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg\\_%')
        UNION ALL SELECT concat_ws(' ', 'constraint', oid, xmin) FROM pg_constraint
        UNION ALL SELECT concat_ws(' ', 'trigger', oid, xmin) FROM pg_trigger
        UNION ALL SELECT concat_ws(' ', 'function', oid, xmin) FROM pg_proc WHERE oid >= 16384
        UNION ALL SELECT concat_ws(' ', 'policy', oid, xmin) FROM pg_policy
        UNION ALL SELECT concat_ws(' ', 'event trigger', oid, xmin) FROM pg_event_trigger
        UNION ALL SELECT concat_ws(' ', 'default', oid, xmin) FROM pg_attrdef
        UNION ALL SELECT concat_ws(' ', 'extension', oid, xmin) FROM pg_extension
        UNION ALL SELECT concat_ws(' ', 'schema', oid, xmin) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_t%'
        UNION ALL SELECT concat_ws(' ', 'privileges', oid, xmin) FROM pg_default_acl
        UNION ALL SELECT concat_ws(' ', 'comment', classoid, objoid, objsubid, xmin) FROM pg_description
        UNION ALL SELECT concat_ws(' ', 'statistics', oid, xmin) FROM pg_statistic_ext
        UNION ALL SELECT concat_ws(' ', 'publication', oid, xmin) FROM pg_publication
        UNION ALL SELECT concat_ws(' ', 'setting', setdatabase, setrole, setconfig) FROM pg_db_role_setting
        UNION ALL SELECT concat_ws(' ', 'database', datacl, datconnlimit, datdba, shobj_description(oid, 'pg_database'))
        FROM pg_database
        WHERE datname = current_database()
    ) AS facts
"""
TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
OTHERS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class Recycled:
    """Lends databases one after the other; one whose schema a test has changed goes, and a new one is made."""

    def __init__(self, make: Callable[[], AbstractContextManager[str]]) -> None:
        """`make` gives the URL of a fresh database, and drops it when it ends."""
        self._make = make
        self._kept: tuple[AbstractContextManager[str], str] | None = None
        self._schema: tuple[object, ...] = ()
        self._rows: dict[str, bytes] = {}
        """What the revisions themselves have written."""

    @contextmanager
    def lent(self) -> Iterator[str]:
        if self._kept is None:
            made = self._make()
            url = made.__enter__()
            self._kept = made, url
            with _connected(url) as connection:
                self._schema = _schema(connection)
                self._rows = {name: _rows(connection, name) for name in _filled(connection)}
        yield self._kept[1]
        if not self._restored(self._kept[1]):
            self.close()

    def close(self) -> None:
        if self._kept is not None:
            made, self._kept = self._kept[0], None
            made.__exit__(None, None, None)

    def _is_kept(self, connection: psycopg.Connection, name: str) -> bool:
        return name in self._rows and _rows(connection, name) == self._rows[name]

    def _restored(self, url: str) -> bool:
        with suppress(psycopg.Error), _connected(url) as connection:
            connection.execute(OTHERS)
            if _schema(connection) != self._schema:
                return False
            changed = [name for name in _filled(connection) if not self._is_kept(connection, name)]
            if changed:
                tables = sql.SQL(", ").join(map(sql.Identifier, changed))
                # The tables that refer to one of them too, for PostgreSQL wants that of empty ones as well.
                connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(tables))
                # TRUNCATE keeps what ANALYZE found.
                connection.execute("DELETE FROM pg_statistic WHERE starelid >= 16384")
            for name in self._rows.keys() - _filled(connection):
                with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))) as copy:
                    copy.write(self._rows[name])
            # Counted before it is reset, and not after.
            connection.execute("SELECT pg_stat_force_next_flush()")
            connection.execute("SELECT pg_stat_reset()")
            return True
        return False


def _connected(url: str) -> psycopg.Connection:
    conninfo = url.replace("postgresql+psycopg://", "postgresql://")
    return psycopg.connect(conninfo, autocommit=True, application_name="tests", options="-c lock_timeout=5s")


def _schema(connection: psycopg.Connection) -> tuple[object, ...]:
    return connection.execute(SCHEMA).fetchone() or ()


def _filled(connection: psycopg.Connection) -> set[str]:
    """The tables that have rows."""
    names = [name for (name,) in connection.execute(TABLES)]
    asked = [sql.SQL("SELECT {} WHERE EXISTS (TABLE {})").format(name, sql.Identifier(name)) for name in names]
    return {name for (name,) in connection.execute(sql.SQL(" UNION ALL ").join(asked))}


def _rows(connection: psycopg.Connection, name: str) -> bytes:
    with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(name))) as copy:
        return b"".join(copy)
