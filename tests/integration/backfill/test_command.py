"""`schemactl backfill`: exit codes, JSON, and what is said when it cannot work."""

import json
import threading

import pytest
from psycopg import sql

from schema.cli import run
from schema.cli.options import Duration
from schema.errors import ReadOnlyError
from tests.support.backfill import until

SECRET = "hunter2"

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"


@pytest.fixture
def schemactl(cluster, capsys):
    """Runs `schemactl backfill WORDS` on the cluster; gives exit code, stdout (parsed when JSON) and stderr."""

    def call(*words, format_="json", url=cluster.url):
        capsys.readouterr()
        code = run(["--url", url, "--format", format_, "backfill", *words])
        out, err = capsys.readouterr()
        return code, json.loads(out) if format_ == "json" and out else out, err

    return call


@pytest.fixture
def legacy(cluster):
    """A session whose representative has a variable that cannot be carried over, and a divergent replica."""
    session = cluster.session()
    first = cluster.kernel(session, environ=["FINE=1", f"pass word={SECRET}"], allocations={"cpu": "1"})
    cluster.kernel(session, cluster_idx=1, environ=[f"FINE={SECRET}"])
    return session, first


def test_run_and_run_again(schemactl, legacy):
    code, data, _ = schemactl()
    assert code == data["exit_code"] == 5
    assert (data["command"], data["ok"], data["end"], data["dry_run"]) == ("backfill", False, "complete", False)
    assert data["totals"] == {
        "sessions": 1,
        "groups": 1,
        "slots": 1,
        "environ": 1,
        "rejects": 1,
        "divergent": 1,
        "linked": 2,
    }
    code, data, _ = schemactl()
    assert code == 0
    assert data["totals"]["groups"] == data["totals"]["rejects"] == 0


def test_nothing_to_do(schemactl):
    code, data, _ = schemactl()
    assert (code, data["totals"]) == (0, {"sessions": 0})


def test_dry_run(schemactl, cluster, legacy):
    code, data, _ = schemactl("--dry-run")
    assert (code, data["dry_run"], data["run"], data["totals"]["rejects"]) == (0, True, None, 1)
    assert cluster.groups(legacy[0]) == []
    assert schemactl("status")[1]["backfill"] is None


def test_out_of_time(schemactl, cluster, legacy):
    cluster.kernel(cluster.session())
    code, data, _ = schemactl("--batch-size", "1", "--max-time", "0")
    assert (code, data["end"], data["sessions"]) == (4, "time", 1)
    status = schemactl("status")[1]["backfill"]
    assert (status["state"], status["percent"], status["done"], status["workers"]) == ("running", 50.0, 1, [])
    code, data, _ = schemactl()
    assert (code, data["sessions"], data["totals"]["sessions"]) == (5, 1, 2)


def test_pause_and_resume(schemactl, cluster, legacy):
    assert schemactl("pause")[0] == 1
    cluster.kernel(cluster.session())
    schemactl("--batch-size", "1", "--max-time", "0")
    assert schemactl("pause")[:2][1]["state"] == "paused"
    code, data, err = schemactl()
    assert (code, data["error"]["message"]) == (4, "the backfill is paused")
    assert "schemactl backfill resume" in err
    assert schemactl("resume")[0] == 0
    assert schemactl()[0] == 5


def test_plan(schemactl, legacy):
    code, data, _ = schemactl("plan")
    assert (code, data["command"]) == (0, "backfill plan")
    assert data["counts"] == {
        "sessions": 1,
        "sessions_with_kernels": 1,
        "kernels": 2,
        "unlinked": 2,
        "roles": 1,
        "groups": 1,
        "slots": 1,
        "environ": 1,
        "rejects": 1,
        "divergent": 1,
    }
    [finding] = data["findings"]
    assert finding == {
        "check": "divergent",
        "session": str(legacy[0]),
        "role": "main",
        "detail": "environ, slots",
        "fails": False,
    }


def test_plan_tries_one_batch(schemactl, cluster, legacy):
    _, data, _ = schemactl("plan")
    assert data["chunks"] == {"count": 1, "kind": "whole", "bounds": [{"lower": None, "upper": None}]}
    assert data["sample"]["sessions"] == 1
    assert data["estimate"]["wal_bytes"] == data["sample"]["wal_bytes"] > 0
    assert data["estimate"]["free_bytes"] > 0
    assert any("Insert on kernel_groups" in line for line in data["explain"])
    assert cluster.groups(legacy[0]) == []
    _, text, _ = schemactl("plan", format_="text")
    assert "One batch of 1 sessions, written and rolled back" in text
    # A batch's keys are not spelled out.
    for _ in range(3):
        cluster.kernel(cluster.session())
    assert any("session_id = ANY ('{...}'" in line for line in schemactl("plan")[1]["explain"])
    schemactl()
    assert schemactl("plan")[1]["sample"] is None
    assert "Nothing is left to write." in schemactl("plan", format_="text")[1]


def test_status_and_metrics(schemactl, cluster, legacy, tmp_path):
    file = tmp_path / "backfill.prom"
    for _ in range(3):
        cluster.kernel(cluster.session())
    assert schemactl("--batch-size", "1", "--max-time", "0", "--metrics", str(file))[0] == 4
    assert 'schemactl_backfill_parents_done{job="kernel_groups"} 1\n' in file.read_text()
    ledger = (
        "UPDATE backfill_chunks SET state = 'claimed', owner = 'host pid 1 a', batch_size = 1, rate = 0.5, held = %s"
    )
    cluster.connection.execute(ledger, (None,))
    data = schemactl("status")[1]["backfill"]
    assert {
        name: data[name] for name in ("state", "phase", "rate", "eta_seconds", "held", "chunks", "chunks_done")
    } == {
        "state": "running",
        "phase": "batches",
        "rate": 0.5,
        "eta_seconds": 6,
        "held": [],
        "chunks": 1,
        "chunks_done": 0,
    }
    [worker] = data["workers"]
    assert (worker["owner"], worker["batch_size"], worker["rate"], worker["held"]) == ("host pid 1 a", 1, 0.5, None)
    cluster.connection.execute(ledger, ("vacuum: 1 tables, the limit is 0 tables",))
    code, text, _ = schemactl("status", "--metrics", str(file), format_="text")
    assert code == 0
    assert text.splitlines()[0] == "Backfill running: 25.0%, 1 of 4 sessions."
    assert "Held by vacuum: 1 tables, the limit is 0 tables." in text
    assert "At work: host pid 1 a, 1 sessions a batch." in text
    lines = file.read_text().splitlines()
    assert 'schemactl_backfill_held{job="kernel_groups"} 1' in lines
    assert 'schemactl_backfill_state{job="kernel_groups",state="running"} 1' in lines
    assert 'schemactl_backfill_state{job="kernel_groups",state="complete"} 0' in lines
    assert 'schemactl_backfill_written{job="kernel_groups",what="groups"} 1' in lines
    assert [path.name for path in tmp_path.iterdir()] == ["backfill.prom"]
    code, _, err = schemactl("status", "--metrics", str(tmp_path / "missing" / "x"), format_="text")
    assert (code, "cannot be written: No such file" in err) == (1, True)


def test_mismatch(schemactl, cluster, legacy):
    other = cluster.group(cluster.session())
    cluster.connection.execute("UPDATE kernels SET kernel_group_id = %s", (other,))
    code, data, _ = schemactl()
    assert (code, data["end"], data["totals"]["mismatches"]) == (6, "mismatch", 1)
    assert schemactl("status")[1]["backfill"]["state"] == "failed"


def test_verify(schemactl, cluster, legacy):
    assert schemactl("verify")[0] == 6
    schemactl()
    code, data, _ = schemactl("verify")
    assert (code, data["mismatches"], data["rejects"], data["checks"]) == (5, 0, 1, {"divergent": 1})
    cluster.connection.execute("UPDATE kernel_group_environ SET value = %s", (SECRET,))
    code, text, err = schemactl("verify", format_="text")
    assert code == 6
    assert f"session {legacy[0]} role 'main': environ FINE" in text
    assert SECRET not in text + err


def test_verify_clean(schemactl, cluster):
    cluster.kernel(cluster.session(), environ=["A=1"])
    schemactl()
    assert schemactl("verify")[0] == 0


def test_values_are_shown_only_when_asked_for(schemactl, legacy):
    session, kernel = legacy
    for format_ in ("text", "json"):
        for words in ((), ("rejects",), ("status",), ("plan",), ("verify",)):
            code, out, err = schemactl(*words, format_=format_)
            assert code in (0, 5)
            assert SECRET not in f"{out}{err}"
    code, data, _ = schemactl("rejects", "--show-values")
    assert (code, data["rejects"], data["by_field"]) == (0, 1, {"environ": 1})
    [reject] = data["listed"]
    assert (reject["session"], reject["kernel"], reject["value"]) == (str(session), str(kernel), f"pass word={SECRET}")


def test_rejects_limit(schemactl, cluster):
    for _ in range(3):
        cluster.kernel(cluster.session(), environ=["bad"])
    schemactl()
    _, text, _ = schemactl("rejects", "--limit", "2", format_="text")
    lines = text.splitlines()
    assert len(lines) == 4
    assert lines[2:] == ["3 rejects: environ 3.", "The first 2 are listed; --limit lists more."]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dry-run", "plan"), "--dry-run belongs to a run"),
        (("--batch-size", "0"), "not in the range"),
        (("--max-time", "soon"), "no time span"),
        (("--limit", "moon=1"), "names no signal"),
        (("--limit", "replication_lag=soon"), "cannot be read"),
        (("--limit", "replication_lag_bytes=1e9"), "replication_lag_bytes is counted in bytes, from 0 on"),
        (("--limit", "dead_rows=nan"), "dead_rows is counted in dead rows per live one, from 0 on"),
        (("--limit", "vacuum=-1"), "cannot be read"),
        (("--limit", "vacuum=inf"), "cannot be read"),
        (("--max-time", "nan"), "no time span"),
        (("--wait", "-1"), "no time span"),
        (("--batch-size", "1e9"), "not a valid integer"),
        (("--workers", "0"), "not in the range"),
        (("--duty", "0"), "not in the range"),
        (("--workers", "2", "status"), "--workers belongs to a run"),
        (("unknown",), "No such command"),
    ],
)
def test_usage(schemactl, words, said):
    code, _, err = schemactl(*words, format_="text")
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("75ms", 0.075), ("1.5s", 1.5), ("15m", 900), ("2h", 7200), ("0", 0)]
)
def test_durations(text, seconds):
    assert Duration().convert(text, None, None).total_seconds() == seconds


def test_database_without_the_tables(schemactl, empty_database):
    code, _, err = schemactl(url=empty_database, format_="text")
    assert code == 1
    assert "schemactl upgrade" in err


def test_database_in_the_middle_of_the_history(schemactl, cluster):
    """Before the ledger's revision: told what to do by each command, and nothing breaks off with a traceback."""
    cluster.connection.execute("DROP TABLE backfill_rejects, backfill_chunks, backfill_runs")
    for words in ((), ("--dry-run",), ("pause",), ("resume",), ("verify",), ("rejects",), ("plan",)):
        code, _, err = schemactl(*words, format_="text")
        assert (words, code) == (words, 1)
        assert "run `schemactl upgrade` first" in err
    assert schemactl("status", format_="text")[:2] == (0, "No backfill has been run.\n")


def test_run_that_is_held_to_its_end_says_by_what(schemactl, cluster, operator):
    """By a role that may not see everything, and with -q nothing else would say it."""
    cluster.kernel(cluster.session())
    operator.change("REVOKE pg_monitor FROM {}")
    said = "oldest_xmin: it cannot be read: the role may not see other sessions' snapshots; grant it pg_monitor"
    assert schemactl("--max-time", "0", "--batch-size", "1")[0] == 4
    code, data, _ = schemactl("--max-time", "0", url=operator.url)
    assert (code, data["sessions"], data["held"]) == (4, 0, [said])
    _, text, err = schemactl("--max-time", "0", url=operator.url, format_="text")
    assert f"Held by {said}.\n`schemactl backfill` goes on from there.\n" in text
    assert f"Held by {said}\n" in err


def test_metrics_that_cannot_be_written(schemactl, cluster, legacy):
    file = "/proc/nowhere/backfill.prom"
    code, _, err = schemactl("status", "--metrics", file, format_="text")
    assert (code, f"No backfill has been run, so {file} is not written." in err) == (0, True)
    # A run goes on, and says it once.
    code, _, err = schemactl("--metrics", file, format_="text")
    assert (code, err.count(f"The metrics cannot be written to {file}: No such file or directory")) == (5, 1)
    code, _, err = schemactl("status", "--metrics", file, format_="text")
    assert (code, err) == (
        1,
        f"{err.splitlines()[0]}\nError: {file} cannot be written: No such file or directory. "
        "Name a file in a folder that is yours to write.\n",
    )


def test_unreachable(schemactl):
    code, _, err = schemactl(url="postgresql://nobody:geheim@localhost:1/nothing", format_="text")
    assert code == 1
    assert "geheim" not in err


def test_read_only(schemactl, cluster, legacy):
    name = cluster.connection.info.dbname
    cluster.connection.execute(
        sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(sql.Identifier(name))
    )
    code, _, err = schemactl(format_="text")
    assert code == 1
    assert err.endswith(f"failed: session is read-only. {ReadOnlyError.default_hint}\n")
    host = cluster.connection.info.host
    several = cluster.url.replace("host=", "host=/nowhere,", 1).replace("port=5432", "port=5432,5432")
    _, _, err = schemactl("pause", url=several, format_="text")
    assert err.splitlines()[-1] == (
        'Error: connection to server on socket "/nowhere/.s.PGSQL.5432" failed: No such file or directory;'
        f' connection to server on socket "{host}/.s.PGSQL.5432" failed: session is read-only.'
        f" {ReadOnlyError.default_hint}"
    )
    assert schemactl("plan")[0] == 0
    assert schemactl("status")[0] == 0


def test_missing_privilege_loses_nothing(schemactl, cluster, legacy, operator):
    """The batch fails in the middle: the grant to link is missing. Once it is there, the same command goes on."""
    operator.change("REVOKE UPDATE ON kernels FROM {}")
    code, _, err = schemactl(url=operator.url, format_="text")
    assert code == 1
    assert "permission denied for table kernels" in err
    assert cluster.groups(legacy[0]) == []
    status = schemactl("status")[1]["backfill"]
    assert (status["state"], status["last_error"]) == (
        "running",
        "PostgreSQL says: permission denied for table kernels (SQLSTATE 42501)",
    )
    operator.change("GRANT UPDATE ON kernels TO {}")
    assert schemactl(url=operator.url)[0] == 5


def test_grant_revoked_mid_run(schemactl, cluster, connect, operator):
    """The run ends at once and sets nothing aside; with the grant back the same command ends it."""
    made = sorted(cluster.session() for _ in range(12))
    for session in made:
        cluster.kernel(session, environ=["A=1"])
    application = connect()
    application.execute("BEGIN")
    application.execute("SELECT FROM kernels WHERE session_id = %s FOR UPDATE", (made[7],))

    def revoke():
        until(lambda: cluster.connection.execute(BLOCKED, (application.info.backend_pid,)).fetchone()[0])
        operator.change("REVOKE INSERT ON kernel_group_environ FROM {}")
        application.execute("COMMIT")

    revoker = threading.Thread(target=revoke)
    revoker.start()
    code, data, err = schemactl("--batch-size", "2", "--duty", "100", url=operator.url)
    revoker.join()
    said = "PostgreSQL says: permission denied for table kernel_group_environ (SQLSTATE 42501)"
    assert (code, data["error"]["type"], data["error"]["message"]) == (1, "PrivilegeError", said)
    assert "docs/privileges.md lists what each command needs." in err
    status = schemactl("status")[1]["backfill"]
    assert (status["done"], status["state"], status["workers"], status["last_error"]) == (6, "running", [], said)
    assert schemactl("rejects")[1]["rejects"] == 0
    operator.change("GRANT INSERT ON kernel_group_environ TO {}")
    code, data, _ = schemactl(url=operator.url)
    assert (code, data["sessions"], data["totals"]["linked"]) == (0, 6, 12)
    assert cluster.failures() == []
