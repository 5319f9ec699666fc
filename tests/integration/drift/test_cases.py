"""Every known change is found, once, on the right object; what means the same is not reported as drift.

`expected.json` names for each change all differences it makes, as kind, object, and attribute (or what happened to the
object as a whole).
"""

import json
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from schema.drift.compare import compare
from schema.drift.judge import Judge
from schema.drift.repair import repair
from schema.pg.catalog import Snapshot, read_snapshot
from tests.support.drift import DATA, plain

CASES = json.loads((DATA / "mutations.json").read_text())
EXPECTED = json.loads((DATA / "expected.json").read_text())


@pytest.fixture(scope="module")
def connection(workshop: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(plain(workshop)) as connection:
        yield connection


BY_HAND = {
    "g_expr",
    "g_expr_paren",
    "en_added_mid",  # a label cannot be removed
    "xt_version",  # the catalog was changed by hand
    "db_fdw",
    "t_extra_schema",  # dropping a schema that holds something takes more than a suggestion
    "uq_to_index",  # the index has the constraint's name
    "co_column",  # a view uses the column
    "mv_changed",
}
"""Changes that the suggested statements alone do not undo."""


@pytest.mark.parametrize("case", CASES["mutations"], ids=lambda case: case["id"])
def test_a_change_is_found_once_on_its_object_and_the_suggested_repair_undoes_it(
    case: dict, major: str, connection: psycopg.Connection, baseline_snapshot: Snapshot, judge: Judge
) -> None:
    if int(major) < case.get("min_major", 0):
        pytest.skip(f"PostgreSQL {case['min_major']} and newer only")
    with connection.transaction(force_rollback=True):
        connection.execute(case["sql"])
        differences = compare(baseline_snapshot, read_snapshot(connection), judge=judge)
        found = [[each.kind, each.identity, each.attribute or each.change] for each in differences]
        assert found == EXPECTED[case["id"]]
        assert [each.equivalent for each in differences] == [None] * len(differences)
        assert all(each.wanted != each.found for each in differences)
        # What is too much goes last: something else may still need it.
        repairs = [repair(each) for each in sorted(differences, key=lambda each: each.change == "extra")]
        database = sql.Identifier(connection.info.dbname).as_string()
        left = ["what has to be written by hand" for each in repairs if not each.statements]
        try:
            for statement in (statement for each in repairs for statement in each.statements):
                # A transaction takes no CONCURRENTLY, and the database's name is psql's to fill in.
                plain_statement = statement.replace(" CONCURRENTLY", "").replace(':"DBNAME"', database)
                connection.execute(sql.SQL(plain_statement))
        except psycopg.Error as error:
            left.append(str(error))
        else:
            after = compare(baseline_snapshot, read_snapshot(connection), judge=judge)
            left += [each.title for each in after if each.equivalent is None and each.attribute != "column order"]
    if case["id"] in BY_HAND:
        # A better repair has to leave the list.
        assert left != []
    else:
        assert left == []


@pytest.mark.parametrize("case", CASES["controls"], ids=lambda case: case["id"])
def test_what_means_the_same_is_no_drift(
    case: dict, connection: psycopg.Connection, baseline_snapshot: Snapshot, judge: Judge
) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute(case["sql"])
        same = read_snapshot(connection)
    differences = compare(baseline_snapshot, same, judge=judge)
    if case["class"] == "identical":
        assert differences == []
    else:
        assert differences != []
        assert [each.title for each in differences if each.equivalent is None] == []


def test_every_case_has_an_expectation() -> None:
    assert EXPECTED.keys() == {case["id"] for case in CASES["mutations"]}
    assert len(CASES["mutations"]) == 105
    assert all(EXPECTED.values())


@pytest.mark.parametrize(
    ("change", "next_id"),
    [
        ("ALTER TABLE webhook ALTER id SET GENERATED ALWAYS SET INCREMENT 10 SET MAXVALUE 99 SET CYCLE", 43),
        # It becomes one again behind the rows that are there.
        ("ALTER TABLE webhook ALTER id DROP IDENTITY; INSERT INTO webhook (id, url, secret) VALUES (70, 'u', 's')", 71),
    ],
)
def test_a_repaired_identity_column_does_not_give_a_number_twice(
    change: str, next_id: int, connection: psycopg.Connection, baseline_snapshot: Snapshot
) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("SELECT setval(pg_get_serial_sequence('webhook', 'id'), 42)")
        connection.execute(change)
        (found,) = compare(baseline_snapshot, read_snapshot(connection))
        for statement in repair(found).statements:
            connection.execute(sql.SQL(statement))
        assert compare(baseline_snapshot, read_snapshot(connection)) == []
        row = connection.execute("INSERT INTO webhook (url, secret) VALUES ('u', 's') RETURNING id").fetchone()
    assert row == (next_id,)


def test_renames_are_told_once_each_and_nothing_that_follows_from_them(
    connection: psycopg.Connection, baseline_snapshot: Snapshot, judge: Judge
) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute(
            "ALTER TABLE resource RENAME TO asset; ALTER TABLE webhook RENAME TO web_hook;"
            "ALTER TABLE web_hook RENAME secret TO token; ALTER TYPE account_role RENAME TO role_of_account;"
            "ALTER INDEX ix_api_token_account_id RENAME TO ix_a; ALTER INDEX ix_audit_event_kind RENAME TO ix_b;"
            "ALTER TABLE product RENAME CONSTRAINT uq_product_sku TO product_sku_key;"
            "ALTER TRIGGER organisation_touch ON organisation RENAME TO touch;"
            "ALTER POLICY api_token_live ON api_token RENAME TO live"
        )
        renamed = read_snapshot(connection)
    found = compare(baseline_snapshot, renamed, judge=judge)
    assert [(each.kind, each.wanted, each.found) for each in found if each.equivalent is None] == [
        ("enum", "public.account_role", "public.role_of_account"),
        ("table", "public.resource", "public.asset"),
        ("table", "public.webhook", "public.web_hook"),
        ("column", "public.webhook.secret", "public.webhook.token"),
        ("constraint", "public.product.uq_product_sku", "public.product.product_sku_key"),
        ("index", "public.ix_api_token_account_id", "public.ix_a"),
        ("index", "public.ix_audit_event_kind", "public.ix_b"),
        ("trigger", "public.organisation.organisation_touch", "public.organisation.touch"),
        ("policy", "public.api_token.api_token_live", "public.api_token.live"),
    ]


def test_columns_in_another_order_are_one_difference_of_their_table(
    connection: psycopg.Connection, baseline_snapshot: Snapshot
) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute(
            "ALTER TABLE currency_rate DROP rate; ALTER TABLE currency_rate ADD rate numeric(24, 12) NOT NULL"
        )
        moved = read_snapshot(connection)
    (found,) = compare(baseline_snapshot, moved)
    assert (found.kind, found.identity, found.attribute) == ("table", "public.currency_rate", "column order")
    assert (found.wanted, found.found) == ("base, quote, rate, source", "base, quote, source, rate")
