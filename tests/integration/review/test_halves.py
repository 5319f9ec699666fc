"""What a rule finds beside its one example: each way of doing the same, run in one chain."""

from pathlib import Path

from schema.review.finding import Example
from tests.conftest import Server
from tests.support.review import reviewed, write

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, b int);
CREATE DOMAIN code AS text; CREATE DOMAIN strict AS int CHECK (VALUE > 0);
CREATE SCHEMA later; CREATE SCHEMA old; CREATE TABLE old.thing (id int PRIMARY KEY);
CREATE SEQUENCE counter; CREATE VIEW seen AS SELECT id FROM app; CREATE MATERIALIZED VIEW sums AS SELECT id FROM app;
CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER watched BEFORE UPDATE ON app FOR EACH ROW EXECUTE FUNCTION kept();
CREATE TRIGGER dropped BEFORE UPDATE ON app FOR EACH ROW EXECUTE FUNCTION kept();
CREATE INDEX ix_app_name ON app (name); CREATE UNIQUE INDEX uq_parent_name ON parent (name);
CREATE TABLE coded (id int PRIMARY KEY, code code, checked int CHECK (checked < 1000), state mood, at timestamp);
CREATE TABLE child (id int PRIMARY KEY, app_id bigint REFERENCES app);
CREATE TABLE plain (id int NOT NULL, n int, gone text);
CREATE TABLE parts (id int NOT NULL, at int) PARTITION BY RANGE (at);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE parts_2 (id int NOT NULL, at int);
GRANT SELECT ON plain TO PUBLIC;
"""

# Of each row of the catalogue, the ways that the rule's own example does not show. Each is a revision of its own.
HALVES: tuple[tuple[str, str], ...] = (
    ("maintenance-blocking", "REINDEX TABLE app"),
    ("maintenance-blocking", "CLUSTER app USING app_pkey"),
    ("maintenance-blocking", "ALONE VACUUM FULL parent"),
    ("maintenance-blocking", "REFRESH MATERIALIZED VIEW sums"),
    ("constraint-index-blocking", "ALTER TABLE plain ADD CONSTRAINT plain_key PRIMARY KEY (id)"),
    ("foreign-key-locks-referenced", "ALTER TABLE plain ADD COLUMN parent_id bigint REFERENCES parent"),
    ("foreign-key-locks-referenced", "CREATE TABLE fresh_child (id bigint PRIMARY KEY REFERENCES parent)"),
    ("column-rewrite", "ALTER TABLE plain ADD COLUMN number serial"),
    ("column-rewrite", "ALTER TABLE plain ADD COLUMN counted int GENERATED ALWAYS AS IDENTITY"),
    ("column-rewrite", "ALTER TABLE plain ADD COLUMN doubled int GENERATED ALWAYS AS (id * 2) STORED"),
    ("column-rewrite", "ALTER TABLE plain ADD COLUMN strictly strict"),
    ("type-change-rewrite", "ALTER TABLE coded ALTER at TYPE timestamptz USING at AT TIME ZONE 'Asia/Seoul'"),
    ("domain-scan", "ALTER DOMAIN code ADD CONSTRAINT short CHECK (length(VALUE) < 1000)"),
    ("storage-rewrite", "ALTER TABLE plain SET UNLOGGED"),
    ("storage-rewrite", "ALTER TABLE plain SET LOGGED"),
    ("truncated", "TRUNCATE app CASCADE"),
    ("partition-locked", "ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (100) TO (200)"),
    ("partition-locked", "ALTER TABLE parts DETACH PARTITION parts_2"),
    ("partition-locked", "CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (200) TO (300)"),
    ("object-dropped", "DROP VIEW seen"),
    ("object-dropped", "DROP MATERIALIZED VIEW sums"),
    ("object-dropped", "DROP FUNCTION one()"),
    ("object-dropped", "DROP SEQUENCE counter"),
    ("object-dropped", "DROP TRIGGER dropped ON app"),
    ("object-dropped", "DROP TYPE pair"),
    ("object-dropped", "DROP SCHEMA old CASCADE"),
    ("object-dropped", "DROP TABLE child"),
    ("renamed", "ALTER TABLE plain RENAME TO simple"),
    ("renamed", "ALTER TABLE simple RENAME COLUMN gone TO away"),
    ("renamed", "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'"),
    ("renamed", "ALTER TYPE mood RENAME TO feeling"),
    ("renamed", "ALTER FUNCTION kept() RENAME TO held"),
    ("behaviour-changed", "ALTER TABLE app ALTER created DROP NOT NULL"),
    ("behaviour-changed", "ALTER TABLE app ALTER created SET DEFAULT '2020-01-01'"),
    ("behaviour-changed", "ALTER TABLE app ALTER created DROP DEFAULT"),
    ("behaviour-changed", "ALTER TABLE app REPLICA IDENTITY FULL"),
    ("behaviour-changed", "ALTER TABLE app ENABLE ROW LEVEL SECURITY"),
    ("behaviour-changed", "CREATE POLICY mine ON app USING (id > 0)"),
    ("behaviour-changed", "REVOKE SELECT ON simple FROM PUBLIC"),
    ("behaviour-changed", "ALTER TABLE app DISABLE TRIGGER watched"),
    ("data-work", "DELETE FROM coded"),
    ("data-work", "INSERT INTO simple (id, n) SELECT g, g FROM generate_series(101, 5000) AS g"),
    ("rows-refused", "ALTER TABLE simple ADD CONSTRAINT to_coded FOREIGN KEY (n) REFERENCES coded (id)"),
    ("rows-refused", "CREATE UNIQUE INDEX uq_coded_half ON coded ((id / 2))"),
    ("rows-refused", "ALTER TABLE coded ADD CONSTRAINT apart EXCLUDE USING btree ((id / 3) WITH =)"),
    ("renamed", "ALTER SCHEMA later RENAME TO sooner"),
    ("column-type", "CREATE TABLE one_type (id bigint PRIMARY KEY, document json)"),
    ("column-type", "CREATE TABLE two_type (id bigint PRIMARY KEY, code char(3))"),
    ("column-type", "CREATE TABLE three_type (id bigint PRIMARY KEY, at timestamp)"),
    ("column-type", "CREATE TABLE four_type (id bigserial PRIMARY KEY)"),
    ("column-type", "CREATE TABLE five_type (id int PRIMARY KEY)"),
    ("redundant-index", "CREATE INDEX ix_again ON app (name)"),
    ("no-lock-timeout", "TWICE SET LOCAL lock_timeout = 0; ALTER TABLE app ADD COLUMN late int"),
    ("nothing-done", "ALTER TABLE app ADD COLUMN IF NOT EXISTS late int"),
    ("nothing-done", "CREATE INDEX IF NOT EXISTS ix_app_name ON app (name)"),
    ("held-lock", "TWICE ALTER TABLE app ADD COLUMN held int; ALTER TABLE app ADD CONSTRAINT h CHECK (number < 99999)"),
)


def body(text: str) -> str:
    """Of an upgrade: `ALONE` a statement in an autocommit block, `TWICE` several in one transaction."""
    if text.startswith("ALONE "):
        return f"with op.get_context().autocommit_block():\n    op.execute({text.removeprefix('ALONE ')!r})"
    return "\n".join(f"op.execute({part.strip()!r})" for part in text.removeprefix("TWICE ").split(";"))


def test_every_way_is_found(server: Server, tmp_path: Path) -> None:
    project = write(tmp_path, *(Example(body(text), setup=SETUP) for _, text in HALVES))
    result = reviewed(project, server.url("postgres"), together=False)
    assert result.faults == []
    told = [
        (rule, text, sorted({finding.rule.id for finding in each.findings}))
        for (rule, text), each in zip(HALVES, result.reviewed, strict=True)
    ]
    assert [each for each in told if each[0] not in each[2]] == []


def test_what_a_drop_takes_is_counted(server: Server, tmp_path: Path) -> None:
    setup = "INSERT INTO app (number) SELECT nullif(g % 4, 0) FROM generate_series(1, 20) AS g"
    project = write(tmp_path, Example('op.drop_column("app", "number")', setup=setup))
    messages = [each.message for each in reviewed(project, server.url("postgres")).findings]
    assert "column public.app.number (15 values here) is dropped" in messages


def test_duplicates_are_counted(server: Server, tmp_path: Path) -> None:
    setup = "INSERT INTO app (number) SELECT g % 4 FROM generate_series(1, 20) AS g"
    upgrade = 'op.create_unique_constraint("uq_app_number", "app", ["number"])'
    result = reviewed(write(tmp_path, Example(upgrade, setup=setup)), server.url("postgres"))
    (finding,) = [each for each in result.findings if each.rule.id == "rows-refused"]
    assert finding.message.endswith("; 4 keys occur more than once")


def test_names_are_held_against_the_convention(server: Server, tmp_path: Path) -> None:
    naming = {
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
    upgrade = """\
op.execute("CREATE TABLE good (id bigint CONSTRAINT pk_good PRIMARY KEY, a bigint, b bigint)")
op.execute("ALTER TABLE good ADD CONSTRAINT fk_good_a_parent FOREIGN KEY (a) REFERENCES parent")
op.execute("ALTER TABLE good ADD CONSTRAINT uq_good_a UNIQUE (a, b)")
op.execute("CREATE INDEX ix_good_b ON good (b)")
op.execute("CREATE TABLE bad (id bigint CONSTRAINT id_of_bad PRIMARY KEY, a bigint, b bigint)")
op.execute("ALTER TABLE bad ADD CONSTRAINT fk_bad_a_app FOREIGN KEY (a) REFERENCES parent")
op.execute("ALTER TABLE bad ADD CONSTRAINT uq_good_b UNIQUE (b)")
op.execute("CREATE INDEX bad_b ON bad (a, b)")"""
    project = write(tmp_path, Example(upgrade), naming=naming)
    findings = reviewed(project, server.url("postgres")).findings
    told = [each.message.split(" is not ")[0] for each in findings if each.rule.id == "name-unconventional"]
    assert sorted(told) == ["FOREIGN KEY fk_bad_a_app", "PRIMARY KEY id_of_bad", "UNIQUE uq_good_b", "index bad_b"]
