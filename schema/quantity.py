"""Byte sizes ("1.5 GiB") and slot quantities, exact: one grammar, read by Python and by PostgreSQL.

No float touches a quantity. The Python functions raise; the SQL forms give NULL for what Python refuses. Numbers are
ASCII digits with single underscores between them allowed, no sign, no exponent; units are 1024-based, in any case;
blanks around the text and before the unit don't matter.
"""

import re
from decimal import Decimal
from typing import Final

from schema.errors import InvalidValueError

BYTE_SIZE_MAX: Final = 2**63 - 1
"""Largest size in bytes: what a bigint column holds."""

SLOT_QUANTITY_LIMIT: Final = 10**18
"""First quantity that numeric(24,6) does not hold."""

SLOT_QUANTITY_SCALE: Final = 6
"""Digits after the point that numeric(24,6) keeps."""

TEXT_MAX_LENGTH: Final = 64
"""Longest text that is looked at; no readable quantity is longer."""

UNITS: Final = ("", "k", "m", "g", "t", "p", "e")
"""Unit prefixes; the nth stands for 1024 to the nth bytes."""

# Classes instead of a case-insensitive match: case folding differs between the two engines (the Kelvin sign is a K).
# No backslash either, so that the pattern stands in an SQL literal as it is.
_DIGITS = "[0-9](?:_?[0-9])*"
QUANTITY_PATTERN: Final = (
    f"^({_DIGITS}(?:[.](?:{_DIGITS})?)?|[.]{_DIGITS}) *((?:[kKmMgGtTpPeE][iI]?)?(?:[bB](?:[yY][tT][eE][sS]?)?)?)$"
)
"""A number (group 1) and its unit (group 2, maybe empty), blanks around it taken off."""

_QUANTITY = re.compile(QUANTITY_PATTERN)
_BLANKS = " \t\n\r\f\v"


def parse_byte_size(value: str | int | Decimal) -> int:
    """Read a size in bytes from `64m`, `1.5 GiB`, `536_870_912`, `100 bytes` or a whole number.

    With a unit, fractions of a byte are cut; without one a fraction is refused.

    Raises:
        InvalidValueError: unreadable, negative, not finite, or more than a bigint holds.
    """
    number, unit = _split(value)
    factor = _factor(unit)
    if not unit and number != number.to_integral_value():
        raise InvalidValueError(f"{_shown(value)} is not a whole number of bytes", hint="Give a unit, such as 1.5g.")
    # Integer arithmetic: a Decimal product would round at the context's precision.
    numerator, denominator = number.as_integer_ratio()
    size = numerator * factor // denominator
    if size > BYTE_SIZE_MAX:
        raise InvalidValueError(f"{_shown(value)} is over {BYTE_SIZE_MAX} bytes")
    return size


def parse_slot_quantity(value: str | int | Decimal) -> Decimal:
    """Read a resource slot's quantity: a decimal (`0.5`), or a byte size when it has a unit (`4g`, in bytes).

    The result has no trailing zeros after the point and fits numeric(24,6) exactly.

    Raises:
        InvalidValueError: unreadable, negative, not finite, more than six digits after the point, or too large.
    """
    number, unit = _split(value)
    if unit:
        number = Decimal(parse_byte_size(value))
    if number >= SLOT_QUANTITY_LIMIT:
        raise InvalidValueError(f"{_shown(value)} is not below {SLOT_QUANTITY_LIMIT}")
    whole, _, fraction = format(number, "f").partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > SLOT_QUANTITY_SCALE:
        raise InvalidValueError(f"{_shown(value)} has more than {SLOT_QUANTITY_SCALE} digits after the point")
    return Decimal(f"{whole}.{fraction}" if fraction else whole)


def byte_size_sql(text: str) -> str:
    """SQL form of `parse_byte_size`: a bigint expression over the text expression `text`, NULL where Python raises."""
    return f"""(
        SELECT CASE WHEN size <= {BYTE_SIZE_MAX} THEN size::bigint END
        FROM (
            SELECT CASE WHEN unit <> '' OR number = trunc(number) THEN trunc(number * {_factor_sql("unit")}) END AS size
            FROM {_split_sql(text)}
        ) AS sized
    )"""


def slot_quantity_sql(text: str) -> str:
    """SQL form of `parse_slot_quantity`: a numeric expression over `text`, NULL where Python raises."""
    return f"""(
        SELECT CASE WHEN number < {SLOT_QUANTITY_LIMIT} AND scale(number) <= {SLOT_QUANTITY_SCALE} THEN number END
        FROM (
            SELECT trim_scale(CASE WHEN unit = '' THEN number ELSE trunc(number * {_factor_sql("unit")}) END) AS number
            FROM {_split_sql(text)}
        ) AS sized
    )"""


def _split(value: str | int | Decimal) -> tuple[Decimal, str]:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise InvalidValueError(f"{_shown(value)} is not a quantity", hint='Write a number, or text such as "1.5 GiB".')
    text = _written(value)
    match = _QUANTITY.fullmatch(text.strip(_BLANKS)) if len(text) <= TEXT_MAX_LENGTH else None
    if match is None:
        raise InvalidValueError(
            f"{_shown(value)} is not a quantity", hint='Write a number of 0 or more, or text such as "1.5 GiB".'
        )
    number, unit = match.groups()
    return Decimal(number.replace("_", "")), unit.lower()


def _written(value: str | int | Decimal) -> str:
    # Written out, 1e999999999 fills the memory, and Python refuses to write an integer of more than 4300 digits.
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        if isinstance(exponent, int) and max(abs(exponent), len(digits)) <= TEXT_MAX_LENGTH:
            return format(value, "f")
        return ""
    if isinstance(value, int) and value.bit_length() > 4 * TEXT_MAX_LENGTH:
        return ""
    return str(value)


def _factor(unit: str) -> int:
    return 1024 ** UNITS.index(unit[:1]) if unit[:1] in UNITS else 1


def _shown(value: object) -> str:
    text = hex(value) if isinstance(value, int) and value.bit_length() > 4 * TEXT_MAX_LENGTH else repr(value)
    return text if len(text) <= TEXT_MAX_LENGTH else f"{text[:TEXT_MAX_LENGTH]}..."


def _split_sql(text: str) -> str:
    # PostgreSQL 15 does not know \v, and would take it for a v.
    blanks = "E' \\t\\n\\r\\f\\x0b'"
    return f"""(
        SELECT replace(part[1], '_', '')::numeric AS number, lower(part[2]) AS unit
        FROM regexp_match(CASE WHEN length({text}) <= {TEXT_MAX_LENGTH} THEN btrim({text}, {blanks}) END,
                          '{QUANTITY_PATTERN}') AS part
    ) AS split"""


def _factor_sql(unit: str) -> str:
    cases = " ".join(f"WHEN '{prefix}' THEN {1024**power}" for power, prefix in enumerate(UNITS) if prefix)
    return f"CASE left({unit}, 1) {cases} ELSE 1 END"
