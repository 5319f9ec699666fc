import pytest

from schema.environ import ENVIRON_KEY_MAX_LENGTH, ENVIRON_KEY_PATTERN, environ_key_check, is_environ_key


@pytest.mark.parametrize("key", ["A", "_", "a1", "HTTP_PROXY", "_9", "x" * ENVIRON_KEY_MAX_LENGTH])
def test_taken(key: str) -> None:
    assert is_environ_key(key)


@pytest.mark.parametrize(
    "key",
    ["", "1A", "A-B", "A B", "A\n", "\nA", "A\x00", "A=B", "É", "A\u0663", "x" * (ENVIRON_KEY_MAX_LENGTH + 1)],
)
def test_refused(key: str) -> None:
    assert not is_environ_key(key)


def test_the_check_holds_the_pattern_as_it_is() -> None:
    assert environ_key_check("key") == f"key ~ '{ENVIRON_KEY_PATTERN}'"
