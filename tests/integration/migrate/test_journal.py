"""What is noted of a revision with an autocommit block, and what a later run makes of it."""

from pathlib import Path

import pytest

from schema.errors import RevisionError
from schema.migrate.lock import only_runner
from tests.support.history import Database, project

BLOCK = "with op.get_context().autocommit_block():\n    "
FAILS = 'op.execute("SELECT 1/0")'


@pytest.fixture
def file(database: Database, tmp_path: Path) -> Path:
    """The one revision of a project."""
    database.config = project(tmp_path, "pass")
    database.run("CREATE TABLE log (n int)")
    return tmp_path / "history/versions/r1.py"


def edit(file: Path, body: str) -> None:
    """Let the revision do something else."""
    head, _, rest = file.read_text().partition("def upgrade() -> None:\n")
    _, _, tail = rest.partition("\n\n\ndef downgrade")
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    file.write_text(f"{head}def upgrade() -> None:\n{indented}\n\ndef downgrade{tail}")


def fail(database: Database, file: Path, body: str) -> None:
    edit(file, body)
    with pytest.raises(RevisionError):
        database.upgrade()


def test_a_statement_that_failed_outside_of_a_transaction_may_become_another(database: Database, file: Path) -> None:
    fail(database, file, f"{BLOCK}op.execute('CREATE INDEX CONCURRENTLY i ON log (nothing)')")
    good = f"{BLOCK}op.execute('INSERT INTO log VALUES (1)')\n    "
    fail(database, file, good + FAILS)
    edit(file, f"{good}pass")
    database.upgrade()
    assert database.rows("SELECT n FROM log") == [(1,)]


def test_an_index_of_another_statement_is_not_taken_for_its_own(database: Database, file: Path) -> None:
    fail(database, file, f"{BLOCK}op.execute('CREATE INDEX CONCURRENTLY i ON log (nothing)')")
    database.run("CREATE INDEX i ON log (n)")
    edit(file, f"{BLOCK}op.execute('CREATE INDEX CONCURRENTLY i ON log ((n + 1))')")
    with pytest.raises(RevisionError, match='relation "i" already exists'):
        database.upgrade()


def test_other_parameters_are_another_statement(database: Database, file: Path) -> None:
    insert = f"{BLOCK}op.get_bind().exec_driver_sql('INSERT INTO log VALUES (%s)', (1,))\n    "
    fail(database, file, insert + FAILS)
    edit(file, insert.replace("(1,)", "(2,)"))
    with pytest.raises(RevisionError, match=r"statement 1, which stands committed, was INSERT INTO log VALUES \(%"):
        database.upgrade()
    assert database.rows("SELECT n FROM log") == [(1,)]


def test_it_is_beside_the_version_table_wherever_the_revision_looks(database: Database, file: Path) -> None:
    database.run("CREATE SCHEMA other")
    insert = (
        "op.execute('SET search_path = other, public')\n"
        f"{BLOCK}op.execute('INSERT INTO log VALUES (1)')\n    op.execute('RESET search_path')\n    "
    )
    fail(database, file, insert.replace("op.execute('RESET", f"{FAILS}\n    op.execute('RESET"))
    assert not database.table_exists("other.alembic_version_unfinished")
    edit(file, f"{insert}pass")
    database.upgrade()
    assert database.rows("SELECT n FROM log") == [(1,)]


def test_transactions_of_the_revision_itself_are_its_own(database: Database, file: Path) -> None:
    edit(
        file,
        BLOCK + "\n    ".join(f"op.execute('{one}')" for one in ("BEGIN", "INSERT INTO log VALUES (1)", "ROLLBACK")),
    )
    database.upgrade()
    assert database.rows("SELECT n FROM log") == []
    assert database.current() == ("r1",)


def test_an_index_is_not_dropped_again_after_it_was_made_anew(database: Database, file: Path) -> None:
    database.run("CREATE INDEX i ON log (n)")
    again = "DROP INDEX CONCURRENTLY IF EXISTS i", "CREATE INDEX CONCURRENTLY i ON log ((n + 1))"
    body = BLOCK + "".join(f"op.execute('{one}')\n    " for one in again)
    fail(database, file, body + FAILS)
    made = database.value("SELECT 'i'::regclass::oid::int")
    edit(file, f"{body}pass")
    database.upgrade()
    assert database.value("SELECT 'i'::regclass::oid::int") == made
    assert database.index("i") == ("public.log USING btree (((n + 1)))", True)


def test_a_drop_whose_end_was_not_noted_is_not_repeated(database: Database, file: Path) -> None:
    """Without IF EXISTS it would fail."""
    database.run("CREATE INDEX i ON log (n)")
    body = f"{BLOCK}op.execute('DROP INDEX CONCURRENTLY i')\n    "
    fail(database, file, body + FAILS)
    # As a server leaves it that crashed before it wrote the note to the disk.
    database.run("UPDATE alembic_version_unfinished SET committed_at = NULL")
    edit(file, f"{body}pass")
    database.upgrade()
    assert database.current() == ("r1",)


def test_the_lock_outlasts_what_the_database_allows_transactions(database: Database) -> None:
    name = database.target.url.database
    database.run(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '5s'")
    with database.connection() as probe:
        settings = ["idle_in_transaction_session_timeout"]
        if probe.info.server_version >= 170000:
            probe.execute(f"ALTER DATABASE {name} SET transaction_timeout = '5s'")
            settings.append("transaction_timeout")
    with only_runner(database.target, wait_s=1, report=print) as lock:
        for setting in settings:
            assert lock.connection.execute(f"SHOW {setting}").fetchone() == ("0",)
