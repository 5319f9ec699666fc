"""ISO 8601 timestamps in text, read by PostgreSQL without an error for those that are none."""

from typing import Final

# All but the length of the month. Nothing is captured: the parts stand at fixed places, and a match with captures
# costs 20 times as much. No more than nine digits of a second: the server refuses long timestamps before it looks.
_PATTERN: Final = (
    "^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]"
    "(?::[0-5][0-9](?:[.][0-9]{1,9})?)?(?:Z|[+-](?:0[0-9]|1[0-5])(?::[0-5][0-9])?)?$"
)


def timestamp_sql(text: str) -> str:
    """SQL expression over the text expression `text`: a timestamptz, NULL when it is none.

    A date, `T` or a blank, hours and minutes, maybe seconds with a fraction, maybe `Z` or an offset. Without an offset
    it is in the session's TimeZone. The calendar is checked before the cast, as an error in the cast fails the whole
    statement and PostgreSQL 15 cannot be asked beforehand. Years are 1 to 9999, offset included, as Python can read.
    """
    return f"""(
        SELECT CASE WHEN moment >= '0001-01-01 00:00:00+00' AND moment < '10000-01-01 00:00:00+00' THEN moment END
        FROM (
            SELECT CASE WHEN day <= CASE WHEN month = 2 THEN 28 + (mod(year, 4) = 0
                                              AND (mod(year, 100) <> 0 OR mod(year, 400) = 0))::int
                                         WHEN month IN (4, 6, 9, 11) THEN 30 ELSE 31 END
                             AND year >= 1
                        THEN ({text})::timestamptz END AS moment
            FROM (
                SELECT substr({text}, 1, 4)::int AS year, substr({text}, 6, 2)::int AS month,
                       substr({text}, 9, 2)::int AS day
                WHERE {text} ~ '{_PATTERN}'
            ) AS dated
        ) AS checked
    )"""
