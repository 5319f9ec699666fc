"""The environment of a run, in a small project of its own and in this one."""

import textwrap
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from schema.errors import ConfigError, RevisionError
from schema.migrate import runner
from schema.migrate.status import database_status
from schema.pg.connect import engine
from schema.pg.scratch import ScratchServer
from tests.support.history import HEAD, ROOT, Database, alembic, ini, project

NOTE = (
    "op.execute(\"INSERT INTO seen SELECT '{0}', current_setting('lock_timeout'), "
    "current_setting('statement_timeout'), pg_current_xact_id()::text\")\n"
)
CREATE = 'op.execute("CREATE TABLE seen (place text, lock_timeout text, statement_timeout text, transaction text)")\n'
BLOCK = "with op.get_context().autocommit_block():\n    op.execute('SELECT 1')\n"


def test_timeouts_are_in_force_before_in_and_after_an_autocommit_block(database: Database, tmp_path: Path) -> None:
    database.config = project(
        tmp_path,
        CREATE + NOTE.format("before") + BLOCK + "    " + NOTE.format("in") + NOTE.format("after"),
        NOTE.format("next"),
        lock_timeout_ms=1234,
        statement_timeout_ms=56_000,
    )
    database.upgrade()
    seen = database.rows("SELECT place, lock_timeout, statement_timeout FROM seen")
    assert seen == [(place, "1234ms", "56s") for place in ("before", "in", "after", "next")]
    # A transaction each, which Alembic gives up when it takes the connection for somebody else's.
    assert database.value("SELECT count(DISTINCT transaction) FROM seen") == 4


def test_timeouts_come_back_after_the_index_revisions(database: Database, tmp_path: Path) -> None:
    """This project's own revisions set both to 0 for CONCURRENTLY."""
    source = (ROOT / "migrations/versions").glob("*c9e1b7a4d2f0*.py")
    body = next(source).read_text().partition("def upgrade() -> None:\n")[2].partition("\n\ndef ")[0]
    database.run("CREATE TABLE session_dependencies (session_id uuid, depends_on uuid)")
    database.config = project(tmp_path, CREATE, textwrap.dedent(body), NOTE.format("next"), lock_timeout_ms=1234)
    database.upgrade()
    assert database.index("ix_session_dependencies_depends_on") is not None
    assert database.rows("SELECT lock_timeout, statement_timeout FROM seen") == [("1234ms", "10min")]


def test_a_failing_revision_is_named_and_those_before_it_stand(database: Database, tmp_path: Path) -> None:
    database.config = project(tmp_path, CREATE, BLOCK, NOTE.format("x") + 'op.execute("SELECT 1/0")')
    with pytest.raises(RevisionError) as failed:
        database.upgrade()
    assert failed.value.message == (
        f"revision r3 ({tmp_path}/history/versions/r3.py) failed: PostgreSQL says: division by zero (SQLSTATE 22012); "
        "committed by this run: r1, r2"
    )
    assert failed.value.hint == "Remove the cause, then run the command again: it goes on from there."
    assert database.current() == ("r2",)
    assert database.rows("SELECT * FROM seen") == []


def test_a_bug_in_a_revision_and_a_refused_downgrade(database: Database, tmp_path: Path) -> None:
    database.config = project(tmp_path, CREATE, "nonsense()")
    with pytest.raises(RevisionError, match=r"revision r2 .*NameError: name 'nonsense' is not defined"):
        database.upgrade()
    with pytest.raises(RevisionError, match=r"revision r1 .* failed: NotImplementedError: test"):
        database.downgrade("base")
    assert database.current() == ("r1",)


def test_timeouts_have_defaults_and_must_be_numbers(database: Database, tmp_path: Path) -> None:
    config = project(tmp_path, CREATE + NOTE.format("x"))
    kept = [line for line in config.read_text().splitlines() if "_ms =" not in line and "_s =" not in line]
    config.write_text("\n".join(kept))
    database.config = config
    database.upgrade()
    assert database.rows("SELECT lock_timeout, statement_timeout FROM seen") == [("2s", "10min")]

    config.write_text(config.read_text().replace("[alembic]\n", "[alembic]\nlock_timeout_ms = soon\n"))
    done = alembic("upgrade", "head", url=database.url, config=config)
    assert done.returncode != 0
    assert f"lock_timeout_ms in {config} is not a whole number: 'soon'." in done.stderr
    assert "Traceback" not in done.stderr


FOREIGN_ENV = """
from alembic import context
from sqlalchemy import engine_from_config, pool

engine = engine_from_config(context.config.get_section("alembic"), prefix="sqlalchemy.", poolclass=pool.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, version_table="their_version")
    with context.begin_transaction():
        context.run_migrations()
"""


def test_the_environment_of_another_project(database: Database, tmp_path: Path) -> None:
    """It knows nothing of ours, and reads sqlalchemy.url: it is given the database that was chosen."""
    database.config = project(tmp_path, CREATE, 'op.execute("SELECT 1/0")')
    (tmp_path / "history/env.py").write_text(FOREIGN_ENV)
    opened = database.project
    runner.upgrade(opened, database.target, "r1")
    assert opened.url is None
    assert runner.version_table(opened, database.target) == runner.VersionTable(("r1",), "their_version")
    assert database_status(opened, database.target).tables == 1
    with pytest.raises(RevisionError, match=r"revision r2 .*division by zero"):
        runner.upgrade(opened, database.target)

    (tmp_path / "history/env.py").write_text("raise RuntimeError('no settings')")
    with pytest.raises(ConfigError, match=r"history/env.py failed: RuntimeError: no settings"):
        runner.upgrade(opened, database.target)
    (tmp_path / "history/env.py").write_text("")
    with pytest.raises(ConfigError, match=r"history/env.py ran no migrations"):
        runner.version_table(opened, database.target)


def test_looking_makes_no_version_table(database: Database) -> None:
    assert database.alembic("current") == []
    with pytest.raises(CommandError, match="Target database is not up to date"):
        database.alembic("check")
    assert not database.table_exists("alembic_version")


@pytest.mark.parametrize("how", ["connection", "engine"])
def test_a_connection_of_the_caller_is_used(database: Database, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setenv("SCHEMACTL_URL", "postgresql://nobody@nowhere.invalid/none")
    config = Config(str(database.config))
    made = engine(database.target)
    if how == "engine":
        config.attributes["connection"] = made
        command.upgrade(config, "head")
    else:
        with made.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    assert database.current() == (HEAD,)


def test_stamp_moves_the_version_only(database: Database) -> None:
    database.alembic("stamp", "3b8e1d6c9a47")
    assert database.current() == ("3b8e1d6c9a47",)
    assert not database.table_exists("sessions")


def test_relative_steps(database: Database) -> None:
    database.alembic("upgrade", "+2")
    assert database.current() == ("d4a27f90b6e1",)
    database.alembic("downgrade", "-1")
    assert database.current() == ("8c1f0a5e2d73",)


def test_percent_signs_in_a_password(tmp_path: Path) -> None:
    """A real password, asked for by a real server: in the environment, and doubled in the ini."""
    password, encoded = "p%40@ s/%x", "p%2540%40%20s%2F%25x"
    with ScratchServer() as server:
        server.create_database("secrets")
        database = Database(server.url("secrets"))
        database.run(
            f"CREATE ROLE keeper LOGIN PASSWORD '{password}'",
            "GRANT CREATE ON SCHEMA public TO keeper",
        )
        hba = Path(database.value("SHOW hba_file"))
        hba.write_text(f"local all keeper scram-sha-256\n{hba.read_text()}")
        database.run("SELECT pg_reload_conf()")
        url = database.target.url
        good = f"postgresql://keeper:{encoded}@/secrets?host={url.query['host']}&port={url.query['port']}"

        def attempt(address: str, config: Path, *, in_ini: bool) -> str:
            done = alembic("upgrade", "+1", url=None if in_ini else address, config=config)
            assert password not in done.stdout + done.stderr
            assert encoded not in done.stdout + done.stderr
            return done.stderr if done.returncode else "done"

        assert attempt(good, ini(tmp_path), in_ini=False) == "done"
        doubled = ini(tmp_path, **{"sqlalchemy.url": good.replace("%", "%%")})
        assert attempt(good, doubled, in_ini=True) == "done"
        undoubled = ini(tmp_path, **{"sqlalchemy.url": good})
        assert f"sqlalchemy.url in {undoubled} cannot be read. Write a percent sign in an ini as %%." in attempt(
            good, undoubled, in_ini=True
        )
        wrong = attempt(good.replace("%2540", "%2541"), ini(tmp_path), in_ini=False)
        assert "password authentication failed" in wrong
        assert "Traceback" not in wrong
        assert database.current() == ("d4a27f90b6e1",)
