"""What a run says when the database will not do."""

import pytest

from schema.errors import DatabaseUnreachableError, PrivilegeError, ReadOnlyError, RevisionError, UsageError
from schema.migrate.runner import downgrade, upgrade
from schema.migrate.status import database_status
from schema.pg.target import Target
from tests.support.history import HEAD, REVISIONS, ROOT, Database, alembic, until


def test_a_database_at_an_unknown_revision(database: Database) -> None:
    database.upgrade("8c1f0a5e2d73")
    database.run("UPDATE alembic_version SET version_num = 'feedc0ffee00'")
    before = database.catalog()
    for attempt in (
        database.upgrade,
        lambda: database.downgrade("base"),
        lambda: database_status(database.project, database.target),
    ):
        with pytest.raises(RevisionError) as refused:
            attempt()
        assert refused.value.message == (
            f"the database is at revision feedc0ffee00, which {ROOT}/migrations does not have"
        )
        assert "newer release" in refused.value.hint
    assert database.catalog() == before


def test_an_unknown_destination(database: Database) -> None:
    with pytest.raises(RevisionError, match="Can't locate revision identified by 'nowhere'"):
        database.upgrade("nowhere")
    with pytest.raises(UsageError, match="is empty"):
        database.upgrade("")
    database.upgrade("3b8e1d6c9a47")
    with pytest.raises(RevisionError, match="not a valid downgrade target"):
        database.downgrade("head")


def test_tables_of_others_are_left_alone(database: Database) -> None:
    database.run("CREATE TABLE invoices AS SELECT 1 AS n")
    before = database_status(database.project, database.target)
    assert (before.current, before.tables, before.foreign, len(before.pending)) == ((), 1, True, REVISIONS)
    database.upgrade()
    assert database.value("SELECT n FROM invoices") == 1
    after = database_status(database.project, database.target)
    assert (after.current, after.tables, after.foreign, after.pending) == ((HEAD,), 26, False, ())


def test_tables_that_are_in_the_way(database: Database) -> None:
    database.run("CREATE TABLE sessions (id int)")
    before = database.catalog()
    with pytest.raises(RevisionError) as refused:
        database.upgrade()
    assert 'relation "sessions" already exists (SQLSTATE 42P07)' in refused.value.message
    assert "`alembic stamp REVISION`" in refused.value.hint
    assert database.catalog() == before


@pytest.fixture
def reader(database: Database) -> Database:
    """The same database, through a role that may only read."""
    name = f"reader_{database.target.url.database}"
    database.run(f"CREATE ROLE {name} LOGIN", f"GRANT pg_read_all_data TO {name}")
    yield Database(database.target.url.set(username=name).render_as_string(hide_password=False))
    database.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_role_that_may_only_read(database: Database, reader: Database) -> None:
    with pytest.raises(PrivilegeError, match=r"permission denied for schema public \(SQLSTATE 42501\)"):
        reader.upgrade()
    database.upgrade("3b8e1d6c9a47")
    with pytest.raises(PrivilegeError, match=r"revision c9e1b7a4d2f0 .*permission denied for schema public"):
        reader.upgrade("c9e1b7a4d2f0")
    assert database_status(reader.project, reader.target).current == ("3b8e1d6c9a47",)
    database.upgrade()
    assert reader.alembic("check") == ["No new upgrade operations detected."]
    assert reader.upgrade().steps == ()


def test_a_server_that_takes_no_writes(database: Database) -> None:
    database.run(f"ALTER DATABASE {database.target.url.database} SET default_transaction_read_only = on")
    with pytest.raises(ReadOnlyError):
        database.upgrade()
    assert database_status(database.project, database.target).current == ()


def test_a_server_that_is_not_there(database: Database) -> None:
    nowhere = Target.parse("postgresql://u:sekret@127.0.0.1:1/none", "test")
    for attempt in (lambda: upgrade(database.project, nowhere), lambda: downgrade(database.project, nowhere, "base")):
        with pytest.raises(DatabaseUnreachableError) as refused:
            attempt()
        assert "sekret" not in refused.value.message + refused.value.hint
    plain = alembic("upgrade", "head", url="postgresql://u:sekret@127.0.0.1:1/none")
    assert plain.returncode != 0
    assert "Connection refused" in plain.stderr
    assert "sekret" not in plain.stderr
    assert "Traceback" not in plain.stderr


def test_a_run_that_is_interrupted_leaves_whole_revisions(database: Database) -> None:
    """Ctrl-C while a revision is under way: it is rolled back, those before it stand, and the next run goes on."""

    def stop(step: object) -> None:
        if step.number == 3 and step.seconds is None:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upgrade(database.project, database.target, on_step=stop)
    assert database.current() == ("d4a27f90b6e1",)
    until(lambda: database.runner_locks() == 0)
    database.upgrade()
    assert database.current() == (HEAD,)


def test_a_connection_that_breaks_in_the_middle(database: Database) -> None:
    """The server ends the connection while a revision is under way."""

    def cut(step: object) -> None:
        if step.number == 2 and step.seconds is None:  # type: ignore[attr-defined]
            database.rows(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = 'schemactl migrate' AND datname = current_database()"
            )

    with pytest.raises(DatabaseUnreachableError, match=r"revision d4a27f90b6e1 .*committed by this run: 8c1f0a5e2d73"):
        upgrade(database.project, database.target, on_step=cut)
    assert database.current() == ("8c1f0a5e2d73",)
    database.upgrade()
    assert database.current() == (HEAD,)
