"""Hand-made faults in this project's chain: each is caught by `schemactl drift` and by plain `alembic check`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.conftest import Server
from tests.support.drift import clone, drop
from tests.support.history import ROOT, ini


class Fault(NamedTuple):
    """What is wrong in a revision, and where the difference shows."""

    revision: str
    right: str
    wrong: str
    found: tuple[str, str, str]


def faults() -> dict[str, Fault]:
    cluster, groups, ledger = "8c1f0a5e2d73", "1a6d9e3f5c28", "27d8f5b0a9e3"
    validate = 'op.execute("ALTER TABLE kernels VALIDATE CONSTRAINT fk_kernels_kernel_group_id_kernel_groups")'
    script = 'op.execute("ALTER TABLE kernel_groups VALIDATE CONSTRAINT fk_kernel_groups_bootstrap_script")'
    slots = "ck_kernel_group_resource_slots_quantity_not_negative"
    return {
        "forgets a CHECK": Fault(
            groups,
            'sa.CheckConstraint("shmem >= 0", name=op.f("ck_kernel_groups_shmem_not_negative")),',
            "",
            ("constraint", "public.kernel_groups.ck_kernel_groups_shmem_not_negative", "missing"),
        ),
        "another regular expression": Fault(
            "3b8e1d6c9a47",
            "^[A-Za-z_][A-Za-z0-9_]*$",
            "^[A-Za-z_][A-Za-z0-9_-]*$",
            ("constraint", "public.system_session_environ.ck_system_session_environ_key_format", "definition"),
        ),
        "half of a CHECK": Fault(
            groups,
            "quantity >= 0 AND quantity <> 'NaN'",
            "quantity >= 0",
            ("constraint", f"public.kernel_group_resource_slots.{slots}", "definition"),
        ),
        "a foreign key without RESTRICT": Fault(
            "92b7e4d10f6a",
            " ON DELETE RESTRICT NOT VALID",
            " NOT VALID",
            ("constraint", "public.kernels.fk_kernels_kernel_group_id_kernel_groups", "definition"),
        ),
        "forgets a foreign key": Fault(
            cluster,
            'sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_kernels_agent_agents")),',
            "",
            ("constraint", "public.kernels.fk_kernels_agent_agents", "missing"),
        ),
        "never validates a foreign key": Fault(
            "0d9b5c7e83f2",
            script,
            'op.execute("GRANT SELECT ON kernel_groups TO PUBLIC")',
            ("constraint", "public.kernel_groups.fk_kernel_groups_bootstrap_script", "validated"),
        ),
        "grants too much": Fault(
            "0d9b5c7e83f2",
            'op.execute("GRANT SELECT ON kernel_groups TO PUBLIC")',
            'op.execute("GRANT SELECT ON kernel_groups TO PUBLIC")',
            ("table", "public.kernel_groups", "privileges"),
        ),
        "an index without its predicate": Fault(
            ledger,
            "postgresql_where=sa.text(\"state IN ('running', 'paused')\"),",
            "",
            ("index", "public.uq_backfill_runs_job_active", "definition"),
        ),
        "another predicate": Fault(
            cluster,
            "status NOT IN ('ERROR', 'TERMINATED', 'CANCELLED')",
            "status NOT IN ('ERROR', 'TERMINATED')",
            ("index", "public.uq_sessions_name_user_uuid_live", "definition"),
        ),
        "forgets an index": Fault(
            "b6f3d2791ce8",
            'op.execute("CREATE INDEX CONCURRENTLY ix_kernels_kernel_group_id ON kernels (kernel_group_id)")',
            "",
            ("index", "public.ix_kernels_kernel_group_id", "missing"),
        ),
        "an index in another order": Fault(
            ledger,
            '"backfill_rejects", ["run_id", "session_id"])',
            '"backfill_rejects", ["session_id", "run_id"])',
            ("index", "public.ix_backfill_rejects_run_id_session_id", "definition"),
        ),
        "another precision": Fault(
            groups,
            'sa.Column("quantity", sa.Numeric(precision=24, scale=6)',
            'sa.Column("quantity", sa.Numeric(precision=18, scale=6)',
            ("column", "public.kernel_group_resource_slots.quantity", "type"),
        ),
        "a nullable column": Fault(
            groups,
            "server_default=sa.text(\"'{}'\"), nullable=False",
            "server_default=sa.text(\"'{}'\"), nullable=True",
            ("column", "public.kernel_groups.preopen_ports", "not null"),
        ),
        "forgets a default": Fault(
            ledger,
            'sa.Column("fence", sa.BigInteger(), server_default=sa.text("0"), nullable=False)',
            'sa.Column("fence", sa.BigInteger(), nullable=False)',
            ("column", "public.backfill_chunks.fence", "default"),
        ),
        "another default": Fault(
            cluster,
            'sa.Column("priority", sa.Integer(), server_default=sa.text("10")',
            'sa.Column("priority", sa.Integer(), server_default=sa.text("20")',
            ("column", "public.sessions.priority", "default"),
        ),
        "an identity that can be overridden": Fault(
            ledger,
            "sa.Identity(always=True)",
            "sa.Identity(always=False)",
            ("column", "public.backfill_rejects.id", "identity options"),
        ),
        "forgets a column": Fault(
            ledger,
            'sa.Column("snapshot_mark", sa.Text(), nullable=True),',
            "",
            ("column", "public.backfill_runs.snapshot_mark", "missing"),
        ),
        "another name for a column": Fault(
            ledger,
            'sa.Column("last_sqlstate"',
            'sa.Column("sqlstate"',
            ("column", "public.backfill_chunks.last_sqlstate", "renamed"),
        ),
        "a unique constraint in another order": Fault(
            groups,
            'sa.UniqueConstraint("session_id", "role"',
            'sa.UniqueConstraint("role", "session_id"',
            ("constraint", "public.kernel_groups.uq_kernel_groups_session_id", "definition"),
        ),
        "a primary key in another order": Fault(
            groups,
            'sa.PrimaryKeyConstraint("kernel_group_id", "key"',
            'sa.PrimaryKeyConstraint("key", "kernel_group_id"',
            ("constraint", "public.kernel_group_environ.pk_kernel_group_environ", "definition"),
        ),
        "another name for a constraint": Fault(
            "c05e9b4a7f16",
            "uq_bootstrap_script_revisions_digest",
            "uq_bootstrap_digest",
            ("constraint", "public.bootstrap_script_revisions.uq_bootstrap_script_revisions_digest", "renamed"),
        ),
        "a function that promises more": Fault(
            cluster,
            "LANGUAGE sql VOLATILE",
            "LANGUAGE sql STABLE",
            ("function", "public.uuid_generate_v7()", "definition"),
        ),
        "a storage option": Fault(
            "5e0c8a3b71d4",
            validate,
            f'{validate}\n    op.execute("ALTER TABLE kernels SET (fillfactor = 70)")',
            ("table", "public.kernels", "options"),
        ),
    }


FAULTS = faults()


class Outcome(NamedTuple):
    drift: subprocess.CompletedProcess[str]
    three_ways: subprocess.CompletedProcess[str]
    check: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def outcome(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """All faults at once in a copy of the chain, which is also what the live database was made by."""
    folder = tmp_path_factory.mktemp("chain")
    shutil.copytree(ROOT / "migrations", folder / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    config = ini(folder, script_location=folder / "migrations")
    for fault in FAULTS.values():
        (path,) = (folder / "migrations/versions").glob(f"*-{fault.revision}_*.py")
        text = path.read_text()
        assert fault.right in text
        path.write_text(text.replace(fault.right, fault.wrong))
    url = clone(server.url("postgres"), "template0")
    kept = {name: value for name, value in os.environ.items() if name not in {"SCHEMACTL_URL", "DATABASE_URL"}}
    environment = {
        **kept,
        "SCHEMACTL_SCRATCH_URL": server.url("postgres"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
    }

    def call(*words: str, live: bool) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *words],
            env={**environment, **({"SCHEMACTL_URL": url} if live else {})},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    upgraded = call("alembic", "-c", str(config), "upgrade", "head", live=True)
    assert upgraded.returncode == 0, upgraded.stderr
    yield Outcome(
        call("schema", "-c", str(config), "--format", "json", "drift", live=False),
        call("schema", "-c", str(config), "--format", "json", "drift", live=True),
        call("alembic", "-c", str(config), "check", live=True),
    )
    drop(url)


@pytest.mark.parametrize("name", FAULTS)
def test_drift_names_the_fault_and_its_revision(name: str, outcome: Outcome) -> None:
    fault = FAULTS[name]
    report = json.loads(outcome.drift.stdout)
    assert (outcome.drift.returncode, report["sides"]) == (3, ["models", "history"]), outcome.drift.stderr
    found = {(row["kind"], row["object"], row["attribute"] or row["change"]): row for row in report["drift"]}
    assert fault.found in found
    row = found[fault.found]
    assert row["verdict"] == "models ≠ history"
    assert row["repair"]


@pytest.mark.parametrize("name", FAULTS)
def test_alembic_check_fails_on_the_fault(name: str, outcome: Outcome) -> None:
    assert outcome.check.returncode != 0
    message = outcome.check.stderr + outcome.check.stdout
    assert "New upgrade operations detected" in message
    kind, identity, what = FAULTS[name].found
    own_name = identity.rpartition(".")[2].partition("(")[0]
    # Either our operation says exactly this, or one of Alembic's own names the object.
    assert f"('drift', '{kind}', '{identity}', '{what}'" in message or f"'{own_name}'" in message


def test_nothing_but_the_faults_is_reported(outcome: Outcome) -> None:
    report = json.loads(outcome.drift.stdout)
    found = {(row["kind"], row["object"], row["attribute"] or row["change"]) for row in report["drift"]}
    assert found == {fault.found for fault in FAULTS.values()}


def test_the_live_database_agrees_with_the_faulty_history(outcome: Outcome) -> None:
    report = json.loads(outcome.three_ways.stdout)
    assert report["sides"] == ["models", "history", "live"]
    assert {row["verdict"] for row in report["drift"]} == {"models ≠ history"}
    assert {row["between"][1] for row in report["drift"]} == {"history"}
    assert len(report["drift"]) == len(FAULTS)
