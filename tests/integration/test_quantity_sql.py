"""Python and PostgreSQL read the same quantities: the same strings to both."""

from decimal import Decimal

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from schema.errors import InvalidValueError
from schema.quantity import byte_size_sql, parse_byte_size, parse_slot_quantity, slot_quantity_sql

# Near-valid text: whole tokens of the grammar, and what one engine might take for one of them.
TOKENS = st.sampled_from(
    [
        *"0123456789",
        *("00", "10", "1024", "999999999999999999", "9223372036854775807", "9223372036854775808", "0.000001"),
        *(".", "..", "_", "__", " ", "  ", "\t", "\n", "\r", "\f", "\v", "\u00a0", "\u2003", "\x1c", "\x85"),
        *("k", "K", "\u212a", "m", "G", "t", "p", "E", "i", "I", "\u0130", "\u0131", "b", "B", "bytes", "Byte", "byte"),
        *("+", "-", "e", "e9", "inf", "NaN", ",", "'", "\\", "%", "\u0661", "\uff11", "\u00b2", "0x", "x"),
    ]
)
ANY_CHARACTER = st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00")
TEXTS = st.one_of(
    st.lists(TOKENS, max_size=8).map("".join),
    st.builds("{}{}{}".format, st.decimals(0, 10**20, places=3), st.sampled_from(["", " "]), TOKENS),
    st.integers(60, 70).flatmap(lambda size: st.text("0123456789_.", min_size=size, max_size=size)),
    st.text(ANY_CHARACTER, max_size=10),
)
BATCHES = st.lists(TEXTS, min_size=20, max_size=40)

CALLS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def connection(empty_database):
    with psycopg.connect(empty_database.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


def served(connection, form, texts):
    statement = sql.SQL("SELECT {} FROM unnest(%s::text[]) WITH ORDINALITY AS given (text, place) ORDER BY place")
    return [row[0] for row in connection.execute(statement.format(sql.SQL(form("given.text"))), (texts,))]


def parsed(parse, text):
    try:
        return parse(text)
    except InvalidValueError:
        return None


@CALLS
@given(BATCHES)
@example(
    [
        "1\u212a",
        "1v",
        "v1",
        "1\v",
        "1_0",
        "1__0",
        "_1",
        "1_",
        "1\n",
        "\u0661",
        "1.",
        ".5k",
        ".",
        "",
        " ",
        "1 ki",
        "7e",
        "8e",
        "1" * 65,
    ]
)
def test_byte_sizes(connection, texts):
    assert served(connection, byte_size_sql, texts) == [parsed(parse_byte_size, text) for text in texts]


@CALLS
@given(BATCHES)
@example(
    ["0.0000010", "0.0000001", "999999999999999999.999999", "1" + "0" * 18, "1.5", "4g", "0.0001k", "1\u212a", "1e"]
)
def test_slot_quantities(connection, texts):
    answers = served(connection, slot_quantity_sql, texts)
    assert answers == [parsed(parse_slot_quantity, text) for text in texts]
    # Equal numbers may differ in their trailing zeros; the canonical text may not.
    assert [str(answer) for answer in answers] == [str(parsed(parse_slot_quantity, text)) for text in texts]


def test_null_stays_null(connection):
    assert served(connection, byte_size_sql, [None]) == [None]
    assert served(connection, slot_quantity_sql, [None, "2.50"]) == [None, Decimal("2.5")]
