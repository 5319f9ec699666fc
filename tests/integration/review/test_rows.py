"""Generated rows satisfy what the catalog demands, and what cannot be filled is named."""

import psycopg
import pytest

from schema.review.rows import ROWS, fill
from tests.support.drift import plain

SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN code AS text CHECK (VALUE ~ '^[A-Z]{2}$' OR VALUE = 'zz');
CREATE TABLE everything (
    id uuid PRIMARY KEY, small varchar(3) NOT NULL UNIQUE, state varchar(10) NOT NULL CHECK (state IN ('new', 'old')),
    mood mood NOT NULL, tags text[] NOT NULL, document jsonb NOT NULL, raw bytea NOT NULL, at timestamptz NOT NULL,
    day date NOT NULL,
    price numeric(10, 2) NOT NULL CHECK (price > 100), address inet NOT NULL, span int4range NOT NULL,
    code code NOT NULL, flag boolean NOT NULL, size int GENERATED ALWAYS AS (length(small)) STORED
);
CREATE TABLE "Odd ""Name" (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "sélect" text NOT NULL);
CREATE TABLE child (a uuid NOT NULL REFERENCES everything, b int, boss int, PRIMARY KEY (a),
    FOREIGN KEY (b) REFERENCES "Odd ""Name" (id));
CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree);
CREATE TABLE span (low int NOT NULL, high int NOT NULL, CHECK (low <= high));
CREATE TABLE one_way (id int PRIMARY KEY, other int NOT NULL);
CREATE TABLE impossible (n int NOT NULL CHECK (n > 5 AND n < 5));
"""


@pytest.fixture
def database(empty_database: str) -> str:
    with psycopg.connect(plain(empty_database), autocommit=True) as connection:
        connection.execute(SCHEMA)
    return empty_database


def test_every_table_that_can_have_rows_gets_some(database: str) -> None:
    with psycopg.connect(plain(database), autocommit=True) as connection:
        unfilled = fill(connection, ignored=frozenset({"public.one_way"}))
        assert [(each.table, each.reason) for each in unfilled] == [
            ("public.impossible", "no value of n (integer) could be made")
        ]
        for table in ("everything", '"Odd ""Name"', "child", "tree", "span"):
            row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert row is not None
            assert row[0] in {2, ROWS} or row[0] > 10, table
        assert connection.execute("SELECT count(*) FROM one_way").fetchone() == (0,)
        assert connection.execute("SELECT DISTINCT state FROM everything ORDER BY 1").fetchall() == [("new",), ("old",)]
        # What has rows is left alone.
        before = connection.execute("SELECT count(*) FROM child").fetchone()
        fill(connection, ignored=frozenset())
        assert connection.execute("SELECT count(*) FROM child").fetchone() == before
