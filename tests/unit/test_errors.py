import pytest

from schema import errors
from schema.errors import ExitCode, SchemaError


def every_error(root: type[SchemaError] = SchemaError) -> list[type[SchemaError]]:
    return [root, *(found for child in root.__subclasses__() for found in every_error(child))]


def test_exit_codes_are_the_documented_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0, "FAILED": 1, "USAGE": 2, "FINDINGS": 3, "MORE_WORK": 4, "REJECTS": 5,
        "MISMATCH": 6, "INTERRUPTED": 130,
    }  # fmt: skip


@pytest.mark.parametrize("kind", every_error())
def test_every_error_carries_an_exit_code_and_explains_itself(kind: type[SchemaError]) -> None:
    assert kind.exit_code in set(ExitCode) - {ExitCode.OK}
    assert kind.__doc__


def test_a_hint_of_its_own_wins_over_the_class_hint() -> None:
    assert errors.ReadOnlyError("no").hint.startswith("Point --url at the primary; ")
    assert errors.ReadOnlyError("no", hint="Do this.").hint == "Do this."
    assert str(errors.ReadOnlyError("no")) == "no"


def test_a_password_in_a_quoted_message_is_hidden() -> None:
    error = SchemaError("env.py failed: no answer from postgresql+psycopg://app:s3cret:x/y@db.example:5432/app?a=b@c")
    assert str(error) == "env.py failed: no answer from postgresql+psycopg://app:***@db.example:5432/app?a=b@c"
    assert str(SchemaError("see https://example.org/a:b")) == "see https://example.org/a:b"
