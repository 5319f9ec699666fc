"""What a review sees in cases that a reader of the SQL would get wrong."""

import json
from pathlib import Path

import pytest

from schema.pg.catalog.indexes import Index
from schema.review.facts import LockMode, Statement
from schema.review.finding import Example
from schema.review.review import Review
from tests.conftest import Server
from tests.support.foreign import schemactl
from tests.support.history import INI
from tests.support.review import found, reviewed, write


def locks(statement: Statement) -> dict[str, LockMode]:
    """The strongest lock that a statement took on each table."""
    strongest: dict[str, LockMode] = {}
    for lock in statement.locks:
        if lock.relation.is_table:
            name = lock.relation.name
            strongest[name] = max(lock.mode, strongest.get(name, lock.mode))
    return strongest


def statements(result: Review, number: int = 0) -> tuple[Statement, ...]:
    return result.reviewed[number].trace.statements


def serious(result: Review) -> list[str]:
    return sorted({each.rule.id for each in result.findings if each.severity > 1})


def run(server: Server, folder: Path, *examples: Example, reverse: bool = False) -> Review:
    result = reviewed(write(folder, *examples), server.url("postgres"), reverse=reverse)
    assert not result.faults
    return result


def test_a_table_and_its_index_in_one_revision(server: Server, tmp_path: Path) -> None:
    upgrade = 'op.execute("CREATE TABLE fresh (id int, n int)")\nop.execute("CREATE INDEX ix_fresh_n ON fresh (n)")'
    assert found(run(server, tmp_path, Example(upgrade))) == []


def test_a_do_block_hides_nothing(server: Server, tmp_path: Path) -> None:
    block = "DO $$ BEGIN ALTER TABLE app ALTER number TYPE bigint; CREATE INDEX ix_app_name ON app (name); END $$"
    result = run(server, tmp_path, Example(f'op.execute("{block}")'))
    (only,) = statements(result)
    assert locks(only) == {"public.app": LockMode.ACCESS_EXCLUSIVE}
    assert "public.app" in [each.name for each in only.rewritten]
    assert {"type-change-rewrite", "index-blocking"} <= set(found(result))


def test_a_new_tables_foreign_key_locks_the_other_one(server: Server, tmp_path: Path) -> None:
    result = run(server, tmp_path, Example('op.execute("CREATE TABLE fresh (id int REFERENCES parent)")'))
    (only,) = statements(result)
    assert locks(only)["public.parent"] is LockMode.SHARE_ROW_EXCLUSIVE
    assert (only.scanned, only.rewritten) == ({}, ())


def test_a_dropped_foreign_key_locks_both_tables(server: Server, tmp_path: Path) -> None:
    setup = "ALTER TABLE app ADD CONSTRAINT app_parent FOREIGN KEY (parent_id) REFERENCES parent"
    result = run(server, tmp_path, Example('op.drop_constraint("app_parent", "app")', setup=setup))
    (only,) = statements(result)
    assert locks(only) == {"public.app": LockMode.ACCESS_EXCLUSIVE, "public.parent": LockMode.ACCESS_EXCLUSIVE}


@pytest.mark.parametrize(("column", "scans"), [("number", False), ("name", True)])
def test_only_a_check_of_the_same_column_saves_the_scan(
    server: Server, tmp_path: Path, column: str, scans: bool
) -> None:
    upgrade = f"""\
op.execute("ALTER TABLE app ADD CONSTRAINT present CHECK ({column} IS NOT NULL) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE app VALIDATE CONSTRAINT present")
op.alter_column("app", "number", nullable=False)"""
    result = run(server, tmp_path, Example(upgrade))
    assert ("set-not-null-scan" in found(result)) is scans
    last = statements(result)[-1]
    assert bool(last.scanned) is scans
    assert [each.transaction for each in statements(result)] == [1, 2, 3]


def test_a_constant_default_rewrites_nothing(server: Server, tmp_path: Path) -> None:
    upgrade = 'op.add_column("app", sa.Column("flag", sa.Boolean, server_default=sa.true(), nullable=False))'
    result = run(server, tmp_path, Example(upgrade))
    (only,) = statements(result)
    assert (only.rewritten, dict(only.scanned)) == ((), {})
    assert serious(result) == []


def test_a_longer_varchar_keeps_its_index(server: Server, tmp_path: Path) -> None:
    setup = "ALTER TABLE app ALTER name TYPE varchar(255); CREATE INDEX ix_app_name ON app (name)"
    result = run(server, tmp_path, Example('op.alter_column("app", "name", type_=sa.String(500))', setup=setup))
    (only,) = statements(result)
    # The index has another oid and its old file.
    assert [each.name for each in only.created if each.is_index] == ["public.ix_app_name"]
    assert only.notes("building index ") == []
    assert serious(result) == []


def test_an_explicit_lock_is_seen_in_its_transaction(server: Server, tmp_path: Path) -> None:
    upgrade = 'op.execute("LOCK TABLE app IN SHARE MODE")\nop.execute("SELECT 1")'
    lock, other = statements(run(server, tmp_path, Example(upgrade)))
    assert locks(lock) == {"public.app": LockMode.SHARE}
    assert [(each.relation.name, each.mode) for each in other.held] == [("public.app", LockMode.SHARE)]
    assert lock.transaction == other.transaction


def test_a_dropped_child_locks_its_parent(server: Server, tmp_path: Path) -> None:
    setup = "CREATE TABLE child (id int, parent_id bigint REFERENCES parent)"
    result = run(server, tmp_path, Example('op.drop_table("child")', setup=setup))
    (only,) = statements(result)
    assert locks(only)["public.parent"] is LockMode.ACCESS_EXCLUSIVE
    assert locks(only)["public.child"] is LockMode.ACCESS_EXCLUSIVE


def test_concurrently_is_seen_from_outside(server: Server, tmp_path: Path) -> None:
    upgrade = """\
with op.get_context().autocommit_block():
    op.create_index("ix_app_number", "app", ["number"], postgresql_concurrently=True)"""
    (only,) = statements(run(server, tmp_path, Example(upgrade)))
    assert locks(only) == {"public.app": LockMode.SHARE_UPDATE_EXCLUSIVE}
    assert [change.key.identity for change in only.changes if isinstance(change.after, Index)] == [
        "public.ix_app_number"
    ]
    assert only.alone


def test_the_timeouts_in_force_are_those_of_the_connection(server: Server, tmp_path: Path) -> None:
    upgrade = 'op.execute("SELECT 1")\nop.execute("SET LOCAL lock_timeout = 0")\nop.execute("SELECT 2")'
    result = run(server, tmp_path, Example(upgrade))
    assert [each.lock_timeout_ms for each in statements(result)] == [2000, 2000, 0]
    assert statements(result)[0].statement_timeout_ms == 600_000


def test_a_set_is_one_deployment(server: Server, tmp_path: Path) -> None:
    one = Example('op.execute("CREATE TABLE fresh (id int)")')
    two = Example('op.execute("CREATE INDEX ix_fresh ON fresh (id)")')
    project = write(tmp_path, one, two)
    assert "index-blocking" not in found(reviewed(project, server.url("postgres"), "b1", "b2"))
    assert "index-blocking" in found(reviewed(project, server.url("postgres"), "b2"))


def test_our_own_chain_is_clean(server: Server, tmp_path: Path) -> None:
    words = ("-c", str(INI), "--format", "json", "review")
    done = schemactl(*words, cache=tmp_path, scratch=server.url("postgres"))
    data = json.loads(done.stdout)
    findings = [(each["revision"], found) for each in data["revisions"] for found in each["findings"]]
    assert [(id_, found["message"]) for id_, found in findings if found["severity"] != "note"] == []
    assert (done.returncode, data["faults"], data["unfilled"]) == (0, [], [])
    # All but the merge went down and up again.
    assert [each["revision"] for each in data["revisions"] if each["reversible"] is not True] == ["e7f4c2a98b10"]


NOT_FINDINGS = (
    "ALTER TABLE app ALTER name TYPE varchar(80)",
    "ALTER TABLE app ALTER name TYPE text",
    "ALTER TABLE app ADD COLUMN constant int NOT NULL DEFAULT 7",
    "ALTER TABLE app ADD COLUMN at timestamptz NOT NULL DEFAULT now()",
    "ALTER TABLE app ADD COLUMN at timestamptz DEFAULT CURRENT_TIMESTAMP",
    "ALTER TABLE app ADD COLUMN upper text DEFAULT upper('abc')",
    "ALTER TABLE keyless ADD PRIMARY KEY USING INDEX keyless_id",
    "CREATE TABLE fresh (id bigint PRIMARY KEY, n int UNIQUE, CHECK (n > 0)); CREATE INDEX ix_fresh ON fresh (n, id)",
    "SET LOCAL TimeZone = 'UTC'; ALTER TABLE stamped ALTER at TYPE timestamptz",
)


def test_what_is_no_finding(server: Server, tmp_path: Path) -> None:
    setup = """
        CREATE TABLE keyless (id bigint NOT NULL); CREATE UNIQUE INDEX keyless_id ON keyless (id);
        CREATE TABLE stamped (at timestamp); """
    statements_ = [*NOT_FINDINGS]
    if server.major == "18":
        statements_.append("ALTER TABLE app ADD COLUMN doubled int GENERATED ALWAYS AS (number * 2) VIRTUAL")
    # The same name twice would fail; each statement is a revision.
    bodies = [f'op.execute("{text.replace("COLUMN at", f"COLUMN at{n}")}")' for n, text in enumerate(statements_)]
    examples = [Example(body, setup=setup) for body in bodies]
    project = write(tmp_path, *examples)
    result = reviewed(project, server.url("postgres"), together=False)
    assert result.faults == []
    told = {
        each.trace.statements[-1].text: [finding.rule.id for finding in each.findings if finding.severity > 1]
        for each in result.reviewed
    }
    assert {text: rules for text, rules in told.items() if rules} == {}
    assert [each.trace.statements[-1].rewritten for each in result.reviewed] == [()] * len(statements_)


def test_a_do_block_that_commits_is_still_followed(server: Server, tmp_path: Path) -> None:
    upgrade = """\
with op.get_context().autocommit_block():
    op.execute("DO $$ BEGIN ALTER TABLE app ADD COLUMN a int; COMMIT; ALTER TABLE app ADD COLUMN b int; END $$")"""
    (only,) = statements(run(server, tmp_path, Example(upgrade)))
    added = sorted(change.key.identity for change in only.changes if change.before is None)
    assert added == ["public.app.a", "public.app.b"]
    assert locks(only)["public.app"] is LockMode.ACCESS_EXCLUSIVE


def test_what_a_revision_accepts_may_be_no_finding_in_a_set(server: Server, tmp_path: Path) -> None:
    one = Example('op.execute("CREATE TABLE fresh (id bigint, n int)")')
    accept = "# schemactl: accept index-blocking -- it is small\n"
    two = Example(f'{accept}op.execute("CREATE INDEX ix_fresh ON fresh (n)")')
    project = write(tmp_path, one, two)
    assert found(reviewed(project, server.url("postgres"), "b1", "b2")) == []
    alone = reviewed(project, server.url("postgres"), "b2")
    assert (found(alone), [entry.rule for _, entry in alone.reviewed[0].accepted]) == ([], ["index-blocking"])


def test_a_long_history_keeps_no_catalogs(server: Server, tmp_path: Path) -> None:
    """What a report needs stays; the catalogs of each revision would fill the memory."""
    column = 'op.add_column("app", sa.Column("c{}", sa.Text))'
    project = write(tmp_path, *(Example(column.format(number)) for number in range(3)))
    traces = [each.trace for each in reviewed(project, server.url("postgres"), together=False).reviewed]
    assert [(bool(each.before.objects), bool(each.after.objects)) for each in traces] == [
        (True, False),
        (False, False),
        (False, False),
    ]
    assert [sorted(relation.name for relation in each.relations.values()) for each in traces] == [["public.app"]] * 3
