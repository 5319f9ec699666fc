"""The SQL timestamp reader: what Python writes it reads, and no text makes it fail."""

from datetime import UTC, datetime, timedelta, timezone

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from schema.backfill.jobs.iso8601 import timestamp_sql

CALLS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
OFFSETS = st.one_of(
    st.none(),
    st.integers(-15 * 60 - 59, 15 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=OFFSETS)
# Fields at and beyond their ends, so that most of these dates are none.
NEAR_VALID = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["0000", "0001", "1900", "2000", "2023", "2024", "9999", "999", "10000"]),
    st.sampled_from(["00", "01", "02", "04", "12", "13", "2"]),
    st.sampled_from(["00", "01", "28", "29", "30", "31", "32", "\u0661\u0661"]),
    st.sampled_from(["T", " ", "t", "", "  "]),
    st.sampled_from(["00", "23", "24", "99"]),
    st.sampled_from(["00", "59", "60"]),
    st.sampled_from(["00", "59", "60", "61", ""]),
    st.sampled_from(["", ".5", ".999999999", ".9999999999", ".", ",5"]),
    st.sampled_from(["", "Z", "z", "+00", "-15:59", "+15:60", "+16:00", "+9", "UTC", " BC", "\n"]),
)


@pytest.fixture
def connection(empty_database):
    with psycopg.connect(empty_database.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def served(connection, texts):
    statement = sql.SQL("SELECT {} FROM unnest(%s::text[]) WITH ORDINALITY AS given (text, place) ORDER BY place")
    return [row[0] for row in connection.execute(statement.format(sql.SQL(timestamp_sql("given.text"))), (texts,))]


@CALLS
@given(st.lists(MOMENTS, min_size=20, max_size=40), st.sampled_from(["T", " "]))
@example([datetime(2000, 2, 29, tzinfo=UTC), datetime(2024, 2, 29, 23, 59, 59, 999999)], "T")
def test_what_python_writes_is_read(connection, moments, separator):
    expected = [moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in moments]
    assert served(connection, [moment.isoformat(separator) for moment in moments]) == expected


@CALLS
@given(st.lists(NEAR_VALID, min_size=50, max_size=100))
@example(["", "now", "infinity", "2024-02-30T00:00:00Z", "2026-01-01T24:00", "2026-01-01T00:00:00." + "1" * 200])
def test_no_text_fails_and_what_is_read_python_reads_alike(connection, texts):
    for text, answer in zip(texts, served(connection, texts), strict=True):
        if answer is None:
            continue
        # Python cuts digits after the sixth and PostgreSQL rounds them.
        parsed = datetime.fromisoformat(text)
        parsed = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        assert abs(answer - parsed) <= timedelta(microseconds=1), text


def test_null_stays_null(connection):
    assert served(connection, [None]) == [None]
