"""Python and PostgreSQL take the same environment keys: the same strings to `is_environ_key` and to a column."""

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from schema.environ import ENVIRON_KEY_MAX_LENGTH, ENVIRON_KEY_PATTERN, is_environ_key

TOKENS = st.sampled_from(
    [
        *("A", "z", "_", "0", "9", "PATH", "a" * 255),
        *("\n", "\r\n", " ", "\t", "=", "-", ".", "$", "^", "[", "`", "@", "{", "'", "\\", "%"),
        *(
            "\u212a",
            "\u017f",
            "\u00c4",
            "\u00df",
            "\u0131",
            "\u0661",
            "\uff21",
            "\uff11",
            "e\u0301",
            "\u200b",
            "\U0001d400",
        ),
    ]
)
KEYS = st.one_of(
    st.lists(TOKENS, max_size=4).map("".join),
    st.integers(ENVIRON_KEY_MAX_LENGTH - 1, ENVIRON_KEY_MAX_LENGTH + 1).map("K".__mul__),
    st.from_regex(ENVIRON_KEY_PATTERN),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=6),
)
CALLS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TABLES = ("system_session_environ", "kernel_group_environ")


@pytest.fixture
def connection(head_database):
    with psycopg.connect(head_database.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE taken (LIKE system_session_environ INCLUDING ALL)")
        yield connection


@CALLS
@given(st.lists(KEYS, min_size=20, max_size=40))
@example(["A\n", "", "1A", "A" * 256, "A" * 257, "\u212a", "A\u0661", "_", "\u00c4"])
def test_pattern_and_length(connection, keys):
    rows = connection.execute(
        "SELECT length(key) <= %s AND key ~ %s FROM unnest(%s::text[]) WITH ORDINALITY AS given (key, place)"
        " ORDER BY place",
        (ENVIRON_KEY_MAX_LENGTH, ENVIRON_KEY_PATTERN, keys),
    )
    assert [row[0] for row in rows] == [is_environ_key(key) for key in keys]


@CALLS
@given(KEYS)
@example("A\n")
@example("A" * 257)
def test_column_with_its_check(connection, key):
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO taken (key, value) VALUES (%s, '')", (key,))
        taken = True
    except (psycopg.errors.CheckViolation, psycopg.errors.StringDataRightTruncation):
        taken = False
    # A varchar column cuts blanks that stick out over its length; a key that ends in blanks fails the pattern anyway.
    assert taken == is_environ_key(key)


@pytest.mark.parametrize("table", TABLES)
def test_every_key_column_has_the_same_check(connection, table):
    rows = connection.execute(
        sql.SQL(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {}::regclass AND contype = 'c'"
        ).format(sql.Literal(table))
    ).fetchall()
    assert rows == [(f"CHECK (((key)::text ~ '{ENVIRON_KEY_PATTERN}'::text))",)]
