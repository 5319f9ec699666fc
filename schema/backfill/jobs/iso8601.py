"""ISO 8601 timestamps in text, read by PostgreSQL without an error for those that are none."""

from typing import Final

# No more than nine digits of a second: PostgreSQL refuses long timestamps before it looks at them.
_PATTERN: Final = (
    "^([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.][0-9]{1,9})?)?"
    "(?:Z|[+-]([0-9]{2})(?::([0-9]{2}))?)?$"
)


def timestamp_sql(text: str) -> str:
    """SQL expression over the text expression `text`: a timestamptz, NULL when it is none.

    A date, `T` or a blank, hours and minutes, maybe seconds with a fraction, maybe `Z` or an offset. Without an offset
    it is in the session's TimeZone. The calendar is checked before the cast, as an error in the cast fails the whole
    statement and PostgreSQL 15 cannot be asked beforehand. Years are 1 to 9999, offset included, as Python can read.
    """
    year, month, day, hour, minute, second, offset_hour, offset_minute = (f"part[{n}]::int" for n in range(1, 9))
    leap = f"(mod({year}, 4) = 0 AND mod({year}, 100) <> 0 OR mod({year}, 400) = 0)"
    last_day = f"CASE WHEN {month} = 2 THEN 28 + {leap}::int WHEN {month} IN (4, 6, 9, 11) THEN 30 ELSE 31 END"
    return f"""(
        SELECT CASE WHEN moment >= '0001-01-01 00:00:00+00' AND moment < '10000-01-01 00:00:00+00' THEN moment END
        FROM (
            SELECT CASE WHEN {year} >= 1 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last_day}
                             AND {hour} <= 23 AND {minute} <= 59 AND coalesce({second}, 0) <= 59
                             AND coalesce({offset_hour}, 0) <= 15 AND coalesce({offset_minute}, 0) <= 59
                        THEN ({text})::timestamptz END AS moment
            FROM regexp_match({text}, '{_PATTERN}') AS part
        ) AS dated
    )"""
