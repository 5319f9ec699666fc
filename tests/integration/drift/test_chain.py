"""Hand-made faults in this project's chain: each is caught by `schemactl drift` and by plain `alembic check`."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from schema.cli.app import run as cli
from schema.migrate.project import Project
from schema.migrate.runner import upgrade
from schema.pg.target import Target
from tests.conftest import Server
from tests.support.drift import clone, drop
from tests.support.history import ROOT, alembic, ini


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


def located(report: dict) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["object"], row["attribute"] or row["change"]) for row in report["drift"]]


def test_every_fault_is_caught_by_drift_and_by_plain_alembic_check(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # All faults at once, in a copy of the chain, which is also what the live database is made by: one replay each.
    shutil.copytree(ROOT / "migrations", tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    config = ini(tmp_path, script_location=tmp_path / "migrations")
    for fault in FAULTS.values():
        (path,) = (tmp_path / "migrations/versions").glob(f"*-{fault.revision}_*.py")
        text = path.read_text()
        assert fault.right in text
        path.write_text(text.replace(fault.right, fault.wrong))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def drift(*words: str) -> tuple[int, dict]:
        capsys.readouterr()
        code = cli(["-c", str(config), "--format", "json", *words, "drift"])
        output, messages = capsys.readouterr()
        assert output, messages
        return code, json.loads(output)

    url = clone(server.url("postgres"), "template0")
    try:
        target = Target.parse(url, "the tests")
        upgrade(Project.open(config), target, "heads")
        code, report = drift()
        three_code, three_ways = drift("--url", url)
        check = alembic("check", url=url, config=config, environment={"PYTHONPATH": str(ROOT)})
    finally:
        drop(url)

    assert (code, report["sides"]) == (3, ["models", "history"])
    # Each fault once, and nothing else.
    assert sorted(located(report)) == sorted(fault.found for fault in FAULTS.values())
    assert {row["verdict"] for row in report["drift"]} == {"models ≠ history"}
    assert [row["object"] for row in report["drift"] if not row["repair"]] == []

    # The live database agrees with the faulty history.
    assert (three_code, three_ways["sides"]) == (3, ["models", "history", "live"])
    assert sorted(located(three_ways)) == sorted(located(report))
    assert {row["verdict"] for row in three_ways["drift"]} == {"models ≠ history"}

    assert check.returncode != 0
    message = check.stderr + check.stdout
    assert "New upgrade operations detected" in message
    assert [name for name, fault in FAULTS.items() if not reported(fault, message)] == []


def reported(fault: Fault, message: str) -> bool:
    """Either our operation says exactly this, or one of Alembic's own names the object."""
    kind, identity, what = fault.found
    own_name = identity.rpartition(".")[2].partition("(")[0]
    return f"('drift', '{kind}', '{identity}', '{what}'" in message or f"'{own_name}'" in message
