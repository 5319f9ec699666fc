"""Connections against real servers: settings in force, and each refusal under its own name, without secrets."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from schema.errors import (
    AuthenticationError,
    DatabaseError,
    DatabaseUnreachableError,
    LockTimeoutError,
    PrivilegeError,
    ReadOnlyError,
    SchemaError,
    StatementTimeoutError,
)
from schema.pg.connect import Connection, connect, engine
from schema.pg.errors import translate
from schema.pg.scratch import ScratchServer
from schema.pg.target import Target

SECRET = "s3cr3t"


def setting(connection: psycopg.Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def translated(action: Callable[[], object]) -> SchemaError:
    try:
        action()
    except (psycopg.Error, sa.exc.SQLAlchemyError) as error:
        ours = translate(error)
        assert ours is not None
        assert SECRET not in ours.message + ours.hint
        assert "\n" not in ours.message
        return ours
    raise AssertionError("nothing failed")


def test_settings_are_there_from_the_start_and_outlive_reset(empty_target: Target) -> None:
    with connect(
        empty_target,
        application_name="schemactl test",
        lock_timeout_ms=1500,
        statement_timeout_ms=0,
        settings={"search_path": r'"a b\c", public'},
    ) as connection:
        for _ in range(2):
            assert setting(connection, "lock_timeout") == "1500ms"
            assert setting(connection, "statement_timeout") == "0"
            assert setting(connection, "search_path") == r'"a b\c", public'
            assert setting(connection, "TimeZone") == "UTC"
            assert setting(connection, "application_name") == "schemactl test"
            connection.execute("RESET ALL")
        assert connection.prepare_threshold is None


def test_what_the_url_says_is_kept(empty_target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=5MB")
    with connect(empty_target, lock_timeout_ms=7) as connection:
        assert (setting(connection, "work_mem"), setting(connection, "lock_timeout")) == ("5MB", "7ms")
    query = {"options": "-c work_mem=6MB", "application_name": "theirs"}
    target = Target(empty_target.url.update_query_dict(query), "--url")
    with connect(target, lock_timeout_ms=7) as connection:
        assert (setting(connection, "work_mem"), setting(connection, "lock_timeout")) == ("6MB", "7ms")
        assert setting(connection, "application_name") == "theirs"


def test_an_engine_has_the_same_settings_and_no_transaction_yet(empty_target: Target) -> None:
    made = engine(empty_target, lock_timeout_ms=1500, statement_timeout_ms=2500)
    with made.connect() as connection:
        assert not connection.in_transaction()
        shown = connection.execute(sa.text("SELECT current_setting('lock_timeout'), current_setting('TimeZone')"))
        assert shown.one() == ("1500ms", "UTC")
        connection.rollback()
    with made.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.execute(sa.text("SHOW statement_timeout")).scalar_one() == "2500ms"


def test_a_server_that_is_starting_is_waited_for(monkeypatch: pytest.MonkeyPatch, empty_target: Target) -> None:
    real, refused = Connection.connect, []

    def starting(*arguments: Any, **keywords: Any) -> psycopg.Connection:
        if len(refused) < 2:
            refused.append(1)
            raise psycopg.OperationalError("connection failed: FATAL:  the database system is starting up")
        return real(*arguments, **keywords)

    monkeypatch.setattr(Connection, "connect", starting)
    with connect(empty_target) as connection:
        assert setting(connection, "TimeZone") == "UTC"
    assert len(refused) == 2


def test_lock_timeout(empty_target: Target) -> None:
    with connect(empty_target) as holder, connect(empty_target, lock_timeout_ms=50) as waiter:
        holder.execute("CREATE TABLE item (id int)")
        holder.commit()
        holder.execute("LOCK TABLE item")
        error = translated(lambda: waiter.execute("SELECT FROM item"))
    assert type(error) is LockTimeoutError
    assert "55P03" in error.message
    assert "pg_locks" in error.hint


def test_statement_timeout(empty_target: Target) -> None:
    with connect(empty_target, statement_timeout_ms=20) as connection:
        error = translated(lambda: connection.execute("SELECT pg_sleep(5)"))
    assert type(error) is StatementTimeoutError


def test_styles_of_the_role_do_not_matter(empty_target: Target) -> None:
    """psycopg reads no timestamp with DateStyle German, and no interval with IntervalStyle iso_8601."""
    with connect(empty_target, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        for setting_, value in (("DateStyle", "German"), ("IntervalStyle", "iso_8601")):
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.Identifier(setting_), value))
    with connect(empty_target) as connection:
        row = connection.execute("SELECT '2026-01-31 12:00Z'::timestamptz, '1 day'::interval").fetchone()
    assert row == (datetime(2026, 1, 31, 12, tzinfo=UTC), timedelta(days=1))


def test_styles_of_the_environment_do_not_matter(empty_target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATESTYLE", "German")
    monkeypatch.setenv("PGTZ", "Asia/Seoul")
    with connect(empty_target) as connection:
        assert (setting(connection, "TimeZone"), setting(connection, "DateStyle")[:3]) == ("UTC", "ISO")


def test_client_encoding_of_the_database_does_not_matter(empty_target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SQL_ASCII psycopg would return bytes."""
    with connect(empty_target, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET client_encoding = 'SQL_ASCII'").format(name))
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    with connect(empty_target) as connection:
        assert connection.execute("SELECT 'é'::text").fetchone() == ("é",)


def test_search_path_to_nowhere(empty_target: Target) -> None:
    with connect(empty_target, settings={"search_path": "nowhere"}) as connection:
        error = translated(lambda: connection.execute("CREATE TABLE item (id int)"))
    assert error.message == "PostgreSQL says: no schema has been selected to create in (SQLSTATE 3F000)"
    assert "search_path" in error.hint


def test_missing_table_says_to_upgrade(empty_target: Target) -> None:
    with connect(empty_target) as connection:
        error = translated(lambda: connection.execute("SELECT FROM kernel_groups"))
    assert error.message == 'PostgreSQL says: relation "kernel_groups" does not exist (SQLSTATE 42P01)'
    assert "schemactl upgrade" in error.hint
    assert "search_path" in error.hint


def test_read_only(empty_target: Target) -> None:
    with connect(empty_target, settings={"default_transaction_read_only": "on"}) as connection:
        error = translated(lambda: connection.execute("CREATE TABLE item ()"))
    assert type(error) is ReadOnlyError


def test_privileges(empty_target: Target, major: str) -> None:
    with connect(empty_target, autocommit=True) as connection:
        role = sql.Identifier(f"weak_{empty_target.url.database}")
        connection.execute(sql.SQL("CREATE ROLE {}").format(role))
        connection.execute("CREATE TABLE item ()")
        connection.execute(sql.SQL("SET ROLE {}").format(role))
        error = translated(lambda: connection.execute("SELECT FROM item"))
        connection.execute("RESET ROLE")
        connection.execute(sql.SQL("DROP ROLE {}").format(role))
    assert type(error) is PrivilegeError
    assert "permission denied for table item" in error.message


def test_detail_and_data_values_are_left_out(empty_target: Target) -> None:
    with connect(empty_target, autocommit=True) as connection:
        connection.execute("CREATE TABLE item (key text UNIQUE)")
        insert = "INSERT INTO item VALUES (%s)"
        connection.execute(insert, [SECRET])
        duplicate = translated(lambda: connection.execute(insert, [SECRET]))
        unreadable = translated(lambda: connection.execute("SELECT (%s::text)::int", [SECRET]))
    assert "item_key_key" in duplicate.message
    assert unreadable.message == 'PostgreSQL says: invalid input syntax for type integer: "..." (SQLSTATE 22P02)'


def test_sqlalchemy_does_not_tell_parameters(empty_target: Target) -> None:
    with engine(empty_target).connect() as connection:
        statement = sa.text("INSERT INTO nowhere VALUES (:value)")
        with pytest.raises(sa.exc.ProgrammingError) as raised:
            connection.execute(statement, {"value": SECRET})
    assert SECRET not in str(raised.value)
    ours = translate(raised.value)
    assert ours is not None
    assert 'relation "nowhere" does not exist' in ours.message


def test_a_terminated_connection(empty_target: Target) -> None:
    with connect(empty_target, autocommit=True) as victim, connect(empty_target, autocommit=True) as killer:
        waiting = threading.Timer(
            0.2, lambda: killer.execute("SELECT pg_terminate_backend(%s)", [victim.info.backend_pid])
        )
        waiting.start()
        error = translated(lambda: victim.execute("SELECT pg_sleep(10)"))
        waiting.join()
        after = translated(lambda: victim.execute("SELECT 1"))
    assert isinstance(error, DatabaseUnreachableError)
    assert "57P01" in error.message
    assert isinstance(after, DatabaseError)


def test_unreachable_and_unknown(empty_target: Target) -> None:
    with pytest.raises(DatabaseUnreachableError, match="Connection refused"):
        connect(Target.parse(f"postgresql://u:{SECRET}@127.0.0.1:1/d", "--url"))
    with pytest.raises(DatabaseUnreachableError, match="No such file"):
        connect(Target.parse(f"postgresql://u:{SECRET}@/d?host=/nowhere", "--url"))
    with pytest.raises(DatabaseUnreachableError, match='database "absent" does not exist') as unknown:
        connect(Target(empty_target.url.set(database="absent"), "--url"))
    assert "createdb" in unknown.value.hint
    error = translated(engine(Target(empty_target.url.set(database="absent"), "--url")).connect)
    assert 'database "absent" does not exist' in error.message


@pytest.fixture(scope="module")
def scram(pg_bindir: Path | None) -> Iterator[ScratchServer]:
    """A server that wants passwords from everybody but postgres."""
    with ScratchServer(pg_bindir, settings={"password_encryption": "scram-sha-256"}) as server:
        rules = "local all postgres trust\nlocal all all scram-sha-256\n"
        (server.folder / "data/pg_hba.conf").write_text(rules)
        with psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True) as admin:
            admin.execute("SELECT pg_reload_conf()")
        yield server


@pytest.mark.parametrize(
    "password", ["100%", "%41", "a@b", "a/b", "a:b", "a?b#c", "a b", " a ", "pÄßwörd→密", "'\"\\", "a&b=c+d", "$(x)`y`"]
)
def test_odd_passwords_against_scram(scram: ScratchServer, password: str) -> None:
    base = Target.parse(scram.url(), "the tests").url
    with psycopg.connect(base.set(drivername="postgresql").render_as_string(False), autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS alice")
        admin.execute(sql.SQL("CREATE ROLE alice LOGIN PASSWORD {}").format(password))
    rendered = base.set(username="alice", password=password).render_as_string(hide_password=False)
    target = Target.parse(rendered, "--url")
    with connect(target) as connection:
        assert connection.info.user == "alice"
    with engine(target).connect() as connection:
        assert connection.execute(sa.text("SELECT current_user")).scalar_one() == "alice"
    wrong = Target(target.url.set(password=f"{password}{SECRET}"), "--url")
    with pytest.raises(AuthenticationError, match='password authentication failed for user "alice"') as refused:
        connect(wrong)
    assert SECRET not in refused.value.message + refused.value.hint + repr(wrong)
    assert SECRET not in translated(engine(wrong).connect).message


def test_no_password_at_all(scram: ScratchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    target = Target.parse(scram.url(), "the tests")
    with pytest.raises(AuthenticationError, match="no password supplied"):
        connect(Target(target.url.set(username="bob"), "--url"))
    with pytest.raises(AuthenticationError):
        connect(Target(target.url.set(username="bob", password=SECRET), "--url"))
