"""Other people's projects: whatever their env.py does, it is read, and nothing of theirs is written."""

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from schema.cli.app import run as cli
from schema.migrate.project import Project
from schema.migrate.runner import upgrade
from schema.pg.target import Target
from tests.conftest import Server
from tests.support.drift import admin, clone, drop, plain
from tests.support.foreign import ASYNC, MODELS, REVISION, files, own_imports, schemactl, write_project

Drift = Callable[..., tuple[int, dict, str]]


@pytest.fixture
def drift(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Drift:
    """Runs `schemactl` in this process; returns the exit code, the report and the messages."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(ini: Path, *words: str) -> tuple[int, dict, str]:
        capsys.readouterr()
        with own_imports():
            code = cli(["-c", str(ini), "--format", "json", *words])
        output, messages = capsys.readouterr()
        assert output, messages
        return code, json.loads(output), messages

    return run


def rows(report: dict) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["object"], row["attribute"] or row["change"]) for row in report["drift"]]


def databases(server: Server) -> set[str]:
    with psycopg.connect(plain(server.url("postgres"))) as connection:
        return {
            row[0]
            for row in connection.execute("SELECT datname FROM pg_database")
            if row[0].startswith("schemactl_drift_")
        }


@pytest.mark.parametrize("env", ["generic", "async"])
def test_a_project_without_drift_is_clean_and_untouched(env: str, server: Server, tmp_path: Path, drift: Drift) -> None:
    folder = tmp_path / "project"
    ini = write_project(folder, **({"env": ASYNC} if env == "async" else {}))
    before, there = files(folder), databases(server)
    code, report, messages = drift(ini, "drift")
    assert (code, report["sides"], report["drift"], report["faults"]) == (0, ["models", "history"], [], []), messages
    assert files(folder) == before
    left = databases(server) - there
    deadline = time.monotonic() + 20
    while left & databases(server):
        # Those of tests that run beside this one go when they end.
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def test_what_the_revisions_lack_is_named_in_both_metadata(server: Server, tmp_path: Path, drift: Drift) -> None:
    folder = tmp_path / "project"
    revision = REVISION.replace('sa.CheckConstraint("length(name) > 0", name="customer_name_not_empty"),', "")
    ini = write_project(folder, revisions={"0001_first.py": revision.replace("sa.Numeric(12, 2)", "sa.Numeric(10, 2)")})
    code, report, _ = drift(ini, "drift")
    assert code == 3
    assert rows(report) == [
        ("column", "billing.invoice.total", "type"),
        ("constraint", "public.customer.customer_name_not_empty", "missing"),
    ]
    assert {row["revision"] for row in report["drift"]} == {None}
    assert report["drift"][1]["repair"] == [
        "ALTER TABLE public.customer ADD CONSTRAINT customer_name_not_empty CHECK ((length((name)::text) > 0))"
    ]


def test_include_object_and_the_version_table_are_heeded(server: Server, tmp_path: Path, drift: Drift) -> None:
    folder = tmp_path / "project"
    extra = (
        "def include_object(object, name, type_, reflected, compare_to):\n"
        "    return not (type_ == 'table' and name.startswith('legacy_')) and name != 'ix_ignored'\n"
    )
    more = REVISION.replace(
        'op.execute("CREATE SCHEMA',
        'op.execute("CREATE TABLE legacy_a (id int CHECK (id > 0)); CREATE INDEX ix_ignored ON customer (name);"\n'
        '        "CREATE INDEX ix_seen ON customer (name); CREATE TABLE seen (id int)")\n    op.execute("CREATE SCHEMA',
    )
    ini = write_project(
        folder,
        extra=extra,
        options="include_object=include_object, version_table='changes', version_table_schema='public'",
        revisions={"0001_first.py": more},
    )
    code, report, messages = drift(ini, "drift")
    assert code == 3, messages
    assert rows(report) == [("table", "public.seen", "extra"), ("index", "public.ix_seen", "extra")]


def test_the_schema_of_the_version_table_is_nobodys_difference(server: Server, tmp_path: Path, drift: Drift) -> None:
    # Made by hand before the first revision, as Alembic wants it: neither the models nor the history have it.
    ini = write_project(tmp_path / "project", options="version_table='changes', version_table_schema='Ops'")
    url = clone(server.url("postgres"), "template0")
    try:
        with psycopg.connect(plain(url), autocommit=True) as connection:
            connection.execute('CREATE SCHEMA "Ops"')
        with own_imports():
            upgrade(Project.open(ini), Target.parse(url, "the tests"), "heads")
        code, report, messages = drift(ini, "--url", url, "drift")
        assert (code, report["sides"], report["drift"]) == (0, ["models", "history", "live"], []), messages
        with psycopg.connect(plain(url), autocommit=True) as connection:
            connection.execute('CREATE TABLE "Ops".scratch (id int)')
        assert rows(drift(ini, "--url", url, "drift")[1]) == [("table", '"Ops".scratch', "extra")]
    finally:
        drop(url)


def test_a_live_database_is_compared_and_only_read(server: Server, tmp_path: Path, drift: Drift) -> None:
    ini = write_project(tmp_path / "project")
    url = clone(server.url("postgres"), "template0")
    try:
        with psycopg.connect(plain(url), autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE customer (id serial PRIMARY KEY, name varchar(80) NOT NULL); CREATE SCHEMA billing;"
                "CREATE TABLE billing.invoice (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
                "total numeric(12, 2) NOT NULL DEFAULT 0.00)"
            )
            marks = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
            before = connection.execute(marks).fetchone()
            code, report, messages = drift(ini, "--url", url, "drift")
            assert connection.execute(marks).fetchone() == before
            assert connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,)
    finally:
        drop(url)
    assert code == 3, messages
    assert [(row["verdict"], row["kind"], row["object"]) for row in report["drift"]] == [
        ("history ≠ live", "constraint", "public.customer.customer_name_not_empty")
    ]
    assert [(row["object"], row["reason"]) for row in report["equivalent"]] == [
        ("billing.invoice.total", "both evaluate to the same")
    ]


def test_a_history_that_fails_is_named_and_the_rest_compared(server: Server, tmp_path: Path, drift: Drift) -> None:
    second = (
        '"""second"""\nfrom alembic import op\nrevision = "bbbb00000002"\ndown_revision = "aaaa00000001"\n\n'
        'def upgrade():\n    op.execute("ALTER TABLE nowhere ADD x int")\n\ndef downgrade():\n    pass\n'
    )
    ini = write_project(tmp_path / "project", revisions={"0001_first.py": REVISION, "0002_second.py": second})
    url = clone(server.url("postgres"), "template0")
    try:
        code, report, messages = drift(ini, "--url", url, "drift")
    finally:
        drop(url)
    assert code == 3, messages
    assert report["sides"] == ["models", "live"]
    (fault,) = report["faults"]
    assert fault["type"] == "RevisionError"
    assert "bbbb00000002" in fault["message"]
    assert 'relation "nowhere" does not exist' in fault["message"]
    assert rows(report) == [("schema", "billing", "missing"), ("table", "public.customer", "missing")]
    assert {row["verdict"] for row in report["drift"]} == {"models ≠ live"}


@pytest.mark.parametrize("stop", ["raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_a_run_that_is_stopped_leaves_no_scratch_database(stop: str, server: Server, tmp_path: Path) -> None:
    revision = REVISION.replace("def upgrade():", f"import os, signal\n\ndef upgrade():\n    {stop}\n    ", 1)
    ini = write_project(tmp_path / "project", revisions={"0001_first.py": revision})
    # As a role of its own, so that databases of tests that run beside this one are not counted.
    role = f"drift_{uuid.uuid4().hex[:12]}"
    with admin(server.url("postgres")) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB").format(sql.Identifier(role)))
        scratch = sa.make_url(server.url("postgres")).set(username=role).render_as_string(hide_password=False)
        done = schemactl("-c", str(ini), "drift", cache=tmp_path, scratch=scratch)
        assert (done.returncode, "Interrupted" in done.stderr) == (130, True), done.stderr
        # Dropping the role would fail, too.
        left = connection.execute("SELECT datname FROM pg_database WHERE datdba = %s::regrole", [role]).fetchall()
        assert left == []
        connection.execute(sql.SQL("ALTER ROLE {} NOCREATEDB").format(sql.Identifier(role)))
        refused = schemactl("-c", str(ini), "drift", cache=tmp_path, scratch=scratch)
        assert refused.returncode == 1
        assert "permission denied to create database" in refused.stderr
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_an_env_that_raises_is_a_fault_with_its_path(server: Server, tmp_path: Path, drift: Drift) -> None:
    ini = write_project(tmp_path / "project", env="raise RuntimeError('no postgresql://app:s3cret@db/app')\n")
    code, report, _ = drift(ini, "drift")
    assert code == 2
    assert report["error"]["type"] == "ConfigError"
    assert "alembic/env.py failed: RuntimeError: no postgresql://app:***@db/app" in report["error"]["message"]


def test_metadata_that_cannot_be_created_is_a_fault_and_history_is_still_compared(
    server: Server, tmp_path: Path, drift: Drift
) -> None:
    broken = MODELS.replace("length(name) > 0", "no_such_function(name)")
    ini = write_project(tmp_path / "project", models=broken)
    url = clone(server.url("postgres"), "template0")
    try:
        code, report, messages = drift(ini, "--url", url, "drift")
    finally:
        drop(url)
    assert code == 3, messages
    assert report["sides"] == ["history", "live"]
    assert "no_such_function" in report["faults"][0]["message"]
    # Without a database nothing is left to compare: that is a failure, never a green run.
    code, report, _ = drift(ini, "drift")
    assert (code, report["error"]["type"]) == (1, "ModelsError")


def test_two_sides_that_agree_are_not_green_while_the_third_could_not_be_had(
    server: Server, tmp_path: Path, drift: Drift
) -> None:
    broken = MODELS.replace("length(name) > 0", "no_such_function(name)")
    ini = write_project(tmp_path / "project", models=broken)
    url = clone(server.url("postgres"), "template0")
    try:
        with psycopg.connect(plain(url), autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE customer (id serial PRIMARY KEY, name varchar(80) NOT NULL,"
                "CONSTRAINT customer_name_not_empty CHECK (length(name) > 0)); CREATE SCHEMA billing;"
                "CREATE TABLE billing.invoice (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
                "total numeric(12, 2) NOT NULL DEFAULT 0)"
            )
        code, report, messages = drift(ini, "--url", url, "drift")
    finally:
        drop(url)
    assert (code, report["drift"], len(report["faults"])) == (1, [], 1), messages


def test_roles_that_only_the_schema_names_do_not_stop_it(tmp_path: Path) -> None:
    models = MODELS + (
        "sa.event.listen(metadata, 'after_create', sa.DDL('GRANT SELECT ON customer TO drift_test_reader'))\n"
    )
    revision = REVISION.replace(
        'op.execute("CREATE SCHEMA',
        'op.execute("GRANT SELECT ON customer TO drift_test_reader")\n    op.execute("CREATE SCHEMA',
    )
    ini = write_project(tmp_path / "project", models=models, revisions={"0001_first.py": revision})
    # On a server of our own: there the roles are made, and taken away again.
    done = schemactl(
        "-c", str(ini), "drift", cache=tmp_path, environment={"SCHEMACTL_STATE_DIR": str(tmp_path / "state")}
    )
    stop = schemactl("server", "stop", cache=tmp_path, environment={"SCHEMACTL_STATE_DIR": str(tmp_path / "state")})
    assert done.returncode == 0, done.stderr
    assert "No drift between models and history." in done.stdout
    assert stop.returncode == 0
