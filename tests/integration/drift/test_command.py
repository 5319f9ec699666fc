"""`schemactl drift` on this project: three ways, by hand, accepted, in every format."""

import json
from pathlib import Path

import psycopg
import pytest

from schema.cli.app import run as cli
from tests.conftest import Server
from tests.support.drift import plain
from tests.support.history import ini as our_ini

BY_HAND = """
    ALTER TABLE kernel_groups DROP CONSTRAINT ck_kernel_groups_shmem_not_negative;
    CREATE INDEX ix_by_hand ON kernels (tag);
    ALTER TABLE sessions ALTER priority SET DEFAULT '10'::int4;
    ALTER TABLE kernels ALTER created_at SET DEFAULT CURRENT_TIMESTAMP;
    ALTER TABLE kernels SET (fillfactor = 100);
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """This project's ini in a folder of its own, where a pyproject.toml can stand beside it."""
    return our_ini(tmp_path)


class Run:
    """Runs the command in this process, which saves the start of another for each of many."""

    def __init__(
        self,
        scratch: str,
        ini: Path,
        cache: Path,
        url: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.ini, self.url, self.capsys = ini, url, capsys
        monkeypatch.setenv("SCHEMACTL_SCRATCH_URL", scratch)
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        monkeypatch.chdir(ini.parent)

    def __call__(self, *words: str, url: str | None = None, live: bool = True) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = cli(["-c", str(self.ini), *(("--url", url or self.url) if live else ()), *words])
        output, messages = self.capsys.readouterr()
        return code, output, messages

    def json(self, *words: str, url: str | None = None, live: bool = True) -> tuple[int, dict]:
        code, output, messages = self("--format", "json", *words, url=url, live=live)
        assert output, messages
        return code, json.loads(output)


@pytest.fixture
def run(
    server: Server,
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    head_database: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    # One cache for the module: the history is replayed once per server.
    return Run(server.url("postgres"), project, tmp_path_factory.getbasetemp(), head_database, capsys, monkeypatch)


@pytest.fixture
def without_server(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """For what is refused before anything connects."""
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    return Run(nowhere, project, tmp_path, nowhere, capsys, monkeypatch)


def change(run: Run, statements: str = BY_HAND) -> None:
    with psycopg.connect(plain(run.url), autocommit=True) as connection:
        connection.execute(statements)


def test_our_own_project_has_no_drift_three_ways(run: Run) -> None:
    code, output, messages = run("drift")
    assert (code, output) == (0, "No drift between models, history and live.\n"), messages


def test_the_form_for_ci_compares_models_and_history(run: Run) -> None:
    code, output, messages = run("drift", live=False)
    assert (code, output) == (0, "No drift between models and history.\n"), messages
    assert "No database is named" in messages


def test_the_history_is_replayed_once_for_all_databases_of_a_server(run: Run) -> None:
    # Each test has a database of its own name; the cache is the module's. CI, without a database, has the same.
    run("drift", live=False)
    change(run, "DO $$BEGIN EXECUTE format('COMMENT ON DATABASE %I IS $a$x$a$', current_database()); END$$")
    code, report = run.json("drift")
    assert (code, [(row["object"], row["attribute"]) for row in report["drift"]]) == (3, [("database", "comment")])
    assert "Replaying" not in run("drift")[2]


def test_a_change_by_hand_is_told_with_its_revision_and_repair(run: Run) -> None:
    change(run)
    code, report = run.json("drift")
    assert code == 3
    assert [(row["verdict"], row["object"], row["revision"], row["repair"]) for row in report["drift"]] == [
        (
            "history ≠ live",
            "public.kernel_groups.ck_kernel_groups_shmem_not_negative",
            "1a6d9e3f5c28",
            [
                "ALTER TABLE public.kernel_groups ADD CONSTRAINT ck_kernel_groups_shmem_not_negative"
                " CHECK ((shmem >= 0))"
            ],
        ),
        ("history ≠ live", "public.ix_by_hand", None, ["DROP INDEX CONCURRENTLY public.ix_by_hand"]),
    ]
    assert {(row["object"], row["reason"]) for row in report["equivalent"]} == {
        ("public.kernels.created_at", "two names of the transaction's time"),
        ("public.kernels", "an option is set to its default"),
    }
    # The repair is only a suggestion.
    assert run.json("drift")[1]["drift"] == report["drift"]


def test_the_suggested_repair_repairs(run: Run) -> None:
    change(run)
    for row in run.json("drift")[1]["drift"]:
        for statement in row["repair"]:
            change(run, statement)
    assert run.json("drift")[0] == 0


def test_between_narrows_to_two_sides(run: Run) -> None:
    change(run)
    code, report = run.json("drift", "--between", "models,live")
    assert (code, report["sides"]) == (3, ["models", "live"])
    assert {row["verdict"] for row in report["drift"]} == {"models ≠ live"}
    assert run.json("drift", "--between", "models,history")[0] == 0


@pytest.mark.parametrize("sides", ["models", "models,models", "models,production", "models,history,live"])
def test_between_takes_two_known_sides(without_server: Run, sides: str) -> None:
    code, _, messages = without_server("drift", "--between", sides)
    assert code == 2
    assert "--between models,live" in messages


def test_accepted_drift_is_silent_and_stale_entries_are_findings(run: Run, project: Path) -> None:
    change(run)
    entries = project.parent / "pyproject.toml"
    accept = "[[tool.schemactl.drift.accept]]\nobject = {}\nreason = 'kept for the nightly report'\nexpires = {}\n"
    good = accept.format("'index public.ix_by_*'", "2099-01-01") + accept.format(
        "'constraint public.kernel_groups.*'", "'fedcba987654'"
    )
    entries.write_text(good)
    code, report = run.json("drift")
    assert (code, report["drift"], len(report["accepted"])) == (0, [], 2)
    entries.write_text(good + accept.format("'table public.gone'", "'2099-01-01'"))
    code, report = run.json("drift")
    assert (code, report["stale_acceptances"]) == (
        3,
        [
            {
                "object": "table public.gone",
                "reason": "kept for the nightly report",
                "expires": "2099-01-01",
                "problem": "matches no difference any more",
            }
        ],
    )
    # The day is past, and the revision is there: the difference counts again.
    entries.write_text(good.replace("2099-01-01", "2020-01-01").replace("fedcba987654", "1a6d9e3f5c28"))
    code, report = run.json("drift")
    assert (code, len(report["drift"]), len(report["accepted"])) == (3, 2, 0)
    assert {entry["problem"] for entry in report["stale_acceptances"]} == {
        "expired at 2020-01-01",
        "expired at 1a6d9e3f5c28",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[tool.schemactl.drift.accept]]\nobject = 'x'\n", "lacks an object or a reason"),
        ("[[tool.schemactl.drift.accept]]\nobjekt = 'x'\nreason = 'y'\n", "other keys than"),
        ("[tool.schemactl.drift]\naccept = 'x'\n", "not an array of tables"),
        ("[[tool.schemactl.drift.accept]]\nobject = 'x'\nreason = 'y'\nexpires = 3\n", "neither a date nor a revision"),
        ("[[tool", "cannot be read"),
    ],
)
def test_an_acceptance_that_cannot_be_read_is_refused(
    without_server: Run, project: Path, text: str, problem: str
) -> None:
    (project.parent / "pyproject.toml").write_text(text)
    code, report = without_server.json("drift")
    assert (code, report["error"]["type"]) == (2, "ConfigError")
    assert problem in report["error"]["message"]


def test_formats(run: Run) -> None:
    change(run)
    text = run("drift")[1]
    assert "history ≠ live - somebody changed the database by hand" in text
    assert "CHECK ((shmem >= 0))                                 | -" in text
    markdown = run("--format", "markdown", "drift")[1]
    assert "## history ≠ live" in markdown
    assert "| index `public.ix_by_hand` | extra | - |" in markdown
    github = run("--format", "github", "drift")[1]
    assert github.count("::error title=history ≠ live%3A ") == 2
    assert "\n::error" in github
    assert run("-v", "drift")[1].count("Equivalent: ") == 2


def test_a_role_that_may_only_connect_is_enough(run: Run, server: Server) -> None:
    with psycopg.connect(plain(run.url), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS drift_onlooker")
        connection.execute("CREATE ROLE drift_onlooker LOGIN")
    try:
        onlooker = run.url.replace("postgres@", "drift_onlooker@")
        assert onlooker != run.url
        code, output, messages = run("drift", url=onlooker)
        assert code == 0, messages
        assert "may not read public.alembic_version" in output
        assert output.endswith("No drift between models, history and live.\n")
    finally:
        with psycopg.connect(plain(run.url), autocommit=True) as connection:
            connection.execute("DROP ROLE drift_onlooker")


def test_a_catalog_that_may_not_be_read_is_named(run: Run, server: Server) -> None:
    with psycopg.connect(plain(run.url), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS drift_shut_out")
        connection.execute("CREATE ROLE drift_shut_out LOGIN; REVOKE SELECT ON pg_catalog.pg_policy FROM PUBLIC")
    try:
        shut_out = run.url.replace("postgres@", "drift_shut_out@")
        code, report = run.json("drift", url=shut_out)
        assert (code, report["error"]["type"]) == (1, "PrivilegeError")
        assert "pg_policy" in report["error"]["message"]
    finally:
        with psycopg.connect(plain(run.url), autocommit=True) as connection:
            connection.execute("DROP ROLE drift_shut_out")


def test_pending_revisions_are_said(run: Run) -> None:
    change(run, "UPDATE alembic_version SET version_num = '1a6d9e3f5c28'")
    code, report = run.json("drift")
    assert code == 0
    assert "The database is at 1a6d9e3f5c28; " in report["notes"][0]
    assert " later revisions are pending" in report["notes"][0]


def test_the_scratch_url_may_not_be_the_live_database(run: Run) -> None:
    code, _, messages = run("drift", "--scratch-url", run.url)
    assert code == 2
    assert "--scratch-url is the live database itself" in messages


def test_another_major_is_said_and_only_what_is_comparable_compared(
    run: Run, server: Server, request: pytest.FixtureRequest
) -> None:
    from tests.conftest import MAJORS, _server

    others = [name for name in MAJORS if name != server.major]
    other = _server(request.config, others[0])
    change(run, "CREATE INDEX ix_by_hand ON kernels (tag)")
    code, report = run.json("drift", "--between", "models,live", "--scratch-url", other.url("postgres"))
    assert f"The live server is PostgreSQL {server.major}" in report["notes"][0]
    found = [(row["object"], row["change"]) for row in report["drift"] if row["kind"] != "function"]
    assert (code, found) == (3, [("public.ix_by_hand", "extra")])
