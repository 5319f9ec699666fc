"""Thirty careless edits of our own revisions, each found under the right rule."""

import shutil
from pathlib import Path

import pytest

from schema.migrate.project import Project
from tests.conftest import Server
from tests.support.history import ROOT, ini
from tests.support.review import reviewed

START = "def upgrade() -> None:\n"


def first(code: str) -> tuple[str, str]:
    """An edit that puts a line at the beginning of the upgrade."""
    return START, f"{START}    {code}\n"


def sql(statement: str) -> tuple[str, str]:
    return first(f'op.execute("{statement}")')


# Of each revision at most one edit in a batch: the batch runs as one chain.
BATCHES: dict[str, dict[str, tuple[tuple[str, str], str]]] = {
    "words removed": {
        "d4a27f90b6e1": (
            ("CREATE INDEX CONCURRENTLY ix_kernels_updated", "CREATE INDEX ix_kernels_updated"),
            "index-blocking",
        ),
        "c9e1b7a4d2f0": (("CREATE INDEX CONCURRENTLY", "CREATE INDEX"), "index-blocking"),
        "51d33226c0a5": ((" NOT VALID\n", "\n"), "check-validated"),
        "1a6d9e3f5c28": (sql("ALTER TABLE sessions ALTER priority TYPE bigint"), "type-change-rewrite"),
        "92b7e4d10f6a": ((" NOT VALID\n", "\n"), "foreign-key-validated"),
        "b6f3d2791ce8": (("CREATE INDEX CONCURRENTLY", "CREATE INDEX"), "index-blocking"),
        "27d8f5b0a9e3": (sql("ALTER TABLE sessions ALTER name TYPE varchar(600)"), "held-lock"),
        "f8a1637d2e5b": (("uuid,", "uuid DEFAULT gen_random_uuid(),"), "column-rewrite"),
        "a3e7f1c6d840": (("CREATE INDEX CONCURRENTLY", "CREATE INDEX"), "index-blocking"),
        "4b7d2f9a0c63": (sql("SET LOCAL lock_timeout = 0"), "no-lock-timeout"),
    },
    "statements added": {
        "d4a27f90b6e1": (sql("UPDATE kernels SET status_changed = now()"), "data-work"),
        "c9e1b7a4d2f0": (sql("ALTER TABLE agents ADD COLUMN token uuid DEFAULT gen_random_uuid()"), "column-rewrite"),
        "51d33226c0a5": (sql("ALTER TABLE agents ALTER addr SET NOT NULL"), "set-not-null-scan"),
        "1a6d9e3f5c28": (sql("ALTER TABLE images ADD COLUMN size_bytes bigint NOT NULL"), "not-null-refused"),
        "92b7e4d10f6a": (sql("ALTER TABLE sessions RENAME COLUMN result TO outcome"), "renamed"),
        "5e0c8a3b71d4": (sql("ALTER TABLE kernels DROP COLUMN last_stat"), "object-dropped"),
        "27d8f5b0a9e3": (sql("ALTER TABLE images ADD CONSTRAINT one UNIQUE (id, tag)"), "constraint-index-blocking"),
        "f8a1637d2e5b": (sql("TRUNCATE session_dependencies"), "truncated"),
        "0d9b5c7e83f2": (sql("LOCK TABLE kernel_groups IN ACCESS EXCLUSIVE MODE"), "validate-while-locked"),
        "4b7d2f9a0c63": (sql("DROP INDEX ix_kernels_created_at"), "index-drop-blocking"),
    },
    "more statements": {
        "d4a27f90b6e1": (sql("ALTER TABLE session_dependencies SET UNLOGGED"), "storage-rewrite"),
        "c9e1b7a4d2f0": (sql("CLUSTER images USING pk_images"), "maintenance-blocking"),
        "51d33226c0a5": (
            sql("ALTER TABLE sessions DROP CONSTRAINT fk_sessions_domain_name_domains"),
            "foreign-key-dropped",
        ),
        "1a6d9e3f5c28": (sql("ALTER TABLE agents ALTER status DROP NOT NULL"), "behaviour-changed"),
        "92b7e4d10f6a": (sql("REINDEX TABLE images"), "maintenance-blocking"),
        "5e0c8a3b71d4": (sql("ALTER TABLE sessions ADD EXCLUDE USING btree (id WITH =)"), "exclude-constraint"),
        "27d8f5b0a9e3": (sql("ALTER TABLE images ADD COLUMN IF NOT EXISTS tag text"), "nothing-done"),
        "f8a1637d2e5b": (sql("DELETE FROM session_dependencies"), "data-work"),
        "0d9b5c7e83f2": (sql("ALTER TABLE kernels RENAME TO workers"), "renamed"),
        "4b7d2f9a0c63": (sql("CREATE TABLE copies (id int PRIMARY KEY, at timestamp)"), "column-type"),
    },
}


@pytest.mark.parametrize("batch", BATCHES)
def test_each_edit_is_found(batch: str, server: Server, tmp_path: Path) -> None:
    edits = BATCHES[batch]
    shutil.copytree(ROOT / "migrations", tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    for revision, ((old, new), _) in edits.items():
        (path,) = (tmp_path / "migrations/versions").glob(f"*{revision}*.py")
        text = path.read_text()
        assert old in text, revision
        path.write_text(text.replace(old, new, 1))
    project = Project.open(ini(tmp_path, script_location=tmp_path / "migrations"))
    result = reviewed(project, server.url("postgres"), *(each.id for each in project.pending(())), together=False)
    assert result.faults == []
    found = {each.trace.revision.id: {finding.rule.id for finding in each.findings} for each in result.reviewed}
    missed = {revision: (rule, found[revision]) for revision, (_, rule) in edits.items() if rule not in found[revision]}
    assert missed == {}
