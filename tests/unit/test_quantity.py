from collections.abc import Callable
from decimal import Decimal

import pytest

from schema.errors import ExitCode, InvalidValueError
from schema.quantity import BYTE_SIZE_MAX, parse_byte_size, parse_slot_quantity

BYTE_SIZES = {
    0: 0,
    67108864: 67108864,
    Decimal("67108864.000"): 67108864,
    BYTE_SIZE_MAX: BYTE_SIZE_MAX,
    "0": 0,
    "64m": 64 * 1024**2,
    "64MB": 64 * 1024**2,
    "64 MiB": 64 * 1024**2,
    "4Gi": 4 * 1024**3,
    "1.5 GiB": 3 * 1024**3 // 2,
    "536_870_912": 536870912,
    "67108864.0": 67108864,
    "67108864.": 67108864,
    ".5k": 512,
    "100 bytes": 100,
    "100b": 100,
    "1.9 byte": 1,
    "1.0001k": 1024,
    " \t\n64M\r\f\v": 64 * 1024**2,
    "7e": 7 * 1024**6,
    "9223372036854775807": BYTE_SIZE_MAX,
    "0.999999999999999999999999999999k": 1023,
}

UNREADABLE = [
    "", " ", "lots", "-1", "+1", "-64m", "inf", "Infinity", "nan", "1e9", "1E9 b", "0x10", "1,5g", "1 000", "64 m b",
    "1__0", "_1", "1_", "1._5g", "m", ".", ".m", "64zb", "5ib", "\u0663", "64\u212a", "64\xa0m", "64\tm", "1\x00",
    "1" * 65, "64mm",
    True, False, None, 1.5, [1], -1, Decimal("-0.5"), Decimal("NaN"), Decimal("Infinity"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "size"), BYTE_SIZES.items())
def test_byte_size(value: str | int | Decimal, size: int) -> None:
    assert parse_byte_size(value) == size


@pytest.mark.parametrize("value", [*UNREADABLE, "1.5", Decimal("0.1"), "8e", "9223372036854775808", BYTE_SIZE_MAX + 1])
def test_byte_size_refused(value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_byte_size(value)  # type: ignore[arg-type]
    assert caught.value.exit_code is ExitCode.FAILED


@pytest.mark.parametrize(
    ("value", "quantity"),
    [
        (4, "4"),
        ("4", "4"),
        ("0", "0"),
        ("0.50", "0.5"),
        (Decimal("1E+3"), "1000"),
        ("4g", "4294967296"),
        ("1.9b", "1"),
        ("0.000001", "0.000001"),
        ("0.0000010", "0.000001"),
        ("999999999999999999.999999", "999999999999999999.999999"),
        ("1_000.5", "1000.5"),
        ("100.0", "100"),
    ],
)
def test_slot_quantity(value: str | int | Decimal, quantity: str) -> None:
    assert str(parse_slot_quantity(value)) == quantity


@pytest.mark.parametrize("value", [*UNREADABLE, "0.0000001", "1000000000000000000", "1e", Decimal("1E+18")])
def test_slot_quantity_refused(value: object) -> None:
    with pytest.raises(InvalidValueError):
        parse_slot_quantity(value)  # type: ignore[arg-type]


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_byte_size("9" * 10_000)
    assert len(caught.value.message) < 120


@pytest.mark.parametrize(
    "value",
    [Decimal("1e999999999"), Decimal("1e-999999999"), 10**5000, Decimal("0." + "0" * 70)],
    ids=["large", "small", "integer", "zeros"],
)
@pytest.mark.parametrize("parse", [parse_byte_size, parse_slot_quantity])
def test_numbers_too_long_to_write_out_are_refused_and_shown_short(
    parse: Callable[[Decimal | int], object], value: Decimal | int
) -> None:
    with pytest.raises(InvalidValueError, match="is not a quantity") as error:
        parse(value)
    assert len(error.value.message) < 120


def test_trailing_zeros_do_not_matter_as_long_as_the_text_is_short() -> None:
    assert parse_slot_quantity(Decimal("0.1" + "0" * 60)) == Decimal("0.1")
