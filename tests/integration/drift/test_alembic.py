"""The plugin in Alembic's own commands: what it adds, what it takes out, what it writes into a revision."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
import sqlalchemy as sa
from alembic.config import CommandLine, Config

from tests.conftest import Server
from tests.support.drift import clone, drop, plain
from tests.support.foreign import own_imports, write_project

MODELS = """
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

metadata = sa.MetaData()
billing = sa.MetaData(naming_convention={"ck": "ck_%(table_name)s_%(constraint_name)s"})
item = sa.Table(
    "item", billing,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.CheckConstraint("id > 0", name="a_name_that_is_far_longer_than_the_sixty_three_bytes_that_are_kept"),
)
order = sa.Table(
    "order", metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("payload", postgresql.JSONB, server_default=sa.text("'{}'::jsonb")),
    sa.Column("tags", postgresql.ARRAY(sa.Text), server_default=sa.text("'{}'::text[]")),
    sa.Column("is_open", sa.Boolean, server_default=sa.text("true")),
    sa.Column("state", sa.String(20)),
    sa.CheckConstraint("state IN ('new', 'done')", name="order_state"),
    sa.CheckConstraint("id < 1000000"),
    sa.Index("ix_order_open", "state", postgresql_where=sa.text("is_open")),
)
"""


class Done(NamedTuple):
    """What a command of Alembic's came to."""

    returncode: int
    stdout: str
    stderr: str


class Project:
    """Runs Alembic's command line in this process, which saves the start of another for each of many."""

    def __init__(self, folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self.folder, self.capsys = url, folder, capsys
        plugins = '["alembic.autogenerate.*", "~alembic.autogenerate.defaults", "schema.drift"]'
        self.ini = write_project(
            folder,
            models=MODELS,
            options=f"autogenerate_plugins={plugins}",
            revisions={},
            ini="file_template = %%(slug)s",
        )
        quoted = url.replace("%", "%%")
        self.ini.write_text(self.ini.read_text().replace("driver://user:pass@localhost/dbname", quoted))
        for path in (folder / "alembic/versions").iterdir():
            path.unlink()

    def __call__(self, *words: str) -> Done:
        self.capsys.readouterr()
        line = CommandLine(prog="alembic")
        options = line.parser.parse_args(["-c", str(self.ini), *words])
        # Its default is what stdout was when Alembic was imported.
        config = Config(self.ini, cmd_opts=options, stdout=sys.stdout)
        code = 0
        with own_imports():
            try:
                line.run_cmd(config, options)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
        return Done(code, *self.capsys.readouterr())

    def sql(self, statement: str) -> None:
        with psycopg.connect(plain(self.url), autocommit=True) as connection:
            connection.execute(statement)

    def revision(self, message: str) -> str:
        done = self("revision", "--autogenerate", "-m", message)
        assert done.returncode == 0, done.stderr
        return (self.folder / f"alembic/versions/{message}.py").read_text()


@pytest.fixture
def project(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """A project whose live database is what its models say, made by `create_all`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = clone(server.url("postgres"), "template0")
    made = Project(tmp_path / "project", url, capsys)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    namespace: dict[str, sa.MetaData] = {}
    exec(compile(MODELS, "models", "exec"), namespace)
    for metadata in ("metadata", "billing"):
        namespace[metadata].create_all(engine)
    yield made
    drop(url)


def test_a_clean_project_stays_clean(project: Project) -> None:
    # Long, unnamed and IN constraints included: none of them is compared by name.
    done = project("check")
    assert (done.returncode, "No new upgrade operations detected." in done.stdout) == (0, True), done.stderr


def test_a_change_of_type_that_makes_alembic_fail_is_reported(project: Project) -> None:
    project.sql(
        'ALTER TABLE "order" ALTER payload DROP DEFAULT, ALTER payload TYPE json;'
        """ALTER TABLE "order" ALTER payload SET DEFAULT '{}'::json;"""
        'ALTER TABLE "order" ALTER tags DROP DEFAULT, ALTER tags TYPE varchar(9)[];'
        """ALTER TABLE "order" ALTER tags SET DEFAULT '{}'"""
    )
    done = project("check")
    assert "New upgrade operations detected" in done.stdout
    assert "Traceback" not in done.stderr
    assert "'payload'" in done.stdout
    assert """('drift', 'column', 'public."order".tags', 'default'""" in done.stdout


def test_what_means_the_same_is_no_operation(project: Project) -> None:
    project.sql('ALTER TABLE "order" ALTER is_open SET DEFAULT (1 = 1)')
    done = project("check")
    assert done.returncode == 0, done.stderr


def test_a_revision_repairs_and_its_downgrade_undoes(project: Project) -> None:
    project.sql(
        'ALTER TABLE "order" DROP CONSTRAINT order_state; DROP INDEX ix_order_open;'
        'CREATE INDEX ix_order_open ON "order" (state) WHERE NOT is_open;'
        "ALTER TABLE \"order\" RENAME state TO status; COMMENT ON INDEX ix_order_open IS 'by hand';"
        "CREATE FUNCTION helper(text) RETURNS text LANGUAGE sql AS $$SELECT 'a :b' || $1$$"
    )
    text = project.revision("repair")
    assert "op.execute('ALTER TABLE public.\"order\" RENAME COLUMN status TO state')" in text
    assert "drop_column" not in text
    assert 'ALTER TABLE public."order" ADD CONSTRAINT order_state CHECK' in text
    assert "op.execute('DROP ROUTINE public.helper(text)')" in text
    assert r"a \\:b" in text
    for words in (("upgrade", "head"), ("check",), ("downgrade", "base"), ("upgrade", "head"), ("check",)):
        done = project(*words)
        assert done.returncode == 0, (words, done.stderr)
    project("downgrade", "base")
    with psycopg.connect(plain(project.url)) as connection:
        row = connection.execute("SELECT pg_get_functiondef('helper(text)'::regprocedure)").fetchone()
        assert row is not None
        assert "'a :b'" in row[0]


def test_what_loses_data_is_written_as_a_comment(project: Project) -> None:
    project.sql("CREATE SEQUENCE numbers; CREATE TYPE mood AS ENUM ('a')")
    text = project.revision("comments")
    assert "# sequence public.numbers extra: by hand, because it loses or rewrites data" in text
    assert "#     DROP SEQUENCE public.numbers;" in text
    assert "op.execute('DROP SEQUENCE" not in text
    assert "op.execute('DROP TYPE public.mood')" in text
    assert project("upgrade", "head").returncode == 0


def test_models_that_cannot_be_made_fail_the_check(project: Project) -> None:
    path = project.folder / "alembic/foreign_models.py"
    path.write_text(path.read_text().replace("id > 0", "no_such(id)"))
    done = project("check")
    assert done.returncode != 0
    assert "the models cannot be created in an empty database" in done.stdout
    assert "Traceback" not in done.stderr
