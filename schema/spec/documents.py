"""Reads the documents that specs come from, JSON and TOML, exactly: no float, no key given twice, bounded in size."""

import json
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from schema.errors import InvalidValueError
from schema.spec.values import kind_of, shown

DOCUMENT_MAX_BYTES: Final = 4 * 1024**2
"""Largest document that is read."""

KEY_MAX_PARTS: Final = 32
"""Most parts of a dotted key; a definition's have three."""

# Strings, comments and words are consumed whole, so that only the dots of keys count. Possessive, so that no text is
# looked at more often than KEY_MAX_PARTS times.
_LONG_KEY = re.compile(
    r"""
      "{3}(?:[^\\]|\\.)*?(?:"{3}|\Z) | '{3}.*?(?:'{3}|\Z) | \#[^\n]*+
    | (?P<key>(?:(?:[A-Za-z0-9_-]++ | "(?:[^"\\\n]|\\.)*+"?+ | '[^'\n]*+'?+)[ \t]*+\.[ \t]*+){PARTS})
    | [A-Za-z0-9_-]++ | "(?:[^"\\\n]|\\.)*+"?+ | '[^'\n]*+'?+
    """.replace("PARTS", str(KEY_MAX_PARTS)),
    re.VERBOSE | re.DOTALL,
)


def read_document(path: Path) -> bytes:
    """Read a file of at most DOCUMENT_MAX_BYTES.

    Raises:
        InvalidValueError: the file can't be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            data = file.read(DOCUMENT_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidValueError(f"{path} cannot be read: {error.strerror}") from error
    _bounded(data, str(path))
    return data


def parse_toml(data: bytes, name: str) -> dict[str, Any]:
    """Parse TOML: numbers with a point or exponent become Decimal. A byte order mark and CRLF are accepted.

    Args:
        data: the document.
        name: what messages call it.

    Raises:
        InvalidValueError: too large, not UTF-8, or not TOML (a key given twice isn't), with the line.
    """
    text = _decoded(data, name)
    # tomllib takes a minute for a key of 100,000 parts: each is looked up with all that come before it.
    if text.count(".") > 1000 and any(match["key"] for match in _LONG_KEY.finditer(text)):
        raise InvalidValueError(f"{name} is not a definition: a key has more than {KEY_MAX_PARTS} parts")
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise InvalidValueError(f"{name} is not TOML: {_toml_fault(str(error))}") from None
    except RecursionError:
        raise InvalidValueError(f"{name} is not a definition: its values are nested too deeply") from None
    except ValueError:
        # Python reads no decimal integer of more than 4300 digits, and no date outside the calendar.
        raise InvalidValueError(f"{name} holds a number or date that is out of range") from None


def parse_json(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object: numbers with a point or exponent become Decimal. A byte order mark is accepted.

    Raises:
        InvalidValueError: too large, not UTF-8, not JSON, not an object, or a key given twice.
    """
    text = _decoded(data, name)
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InvalidValueError(
            f"{name} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except InvalidValueError as error:
        raise InvalidValueError(f"{name} is not readable: {error.message}") from None
    except RecursionError:
        raise InvalidValueError(f"{name} is not readable: its values are nested too deeply") from None
    except ValueError:
        raise InvalidValueError(f"{name} holds a number that is out of range") from None
    if not isinstance(value, dict):
        raise InvalidValueError(f"{name} is not readable: expected an object, found {kind_of(value)}")
    return value


def _bounded(data: bytes, name: str) -> None:
    if len(data) > DOCUMENT_MAX_BYTES:
        raise InvalidValueError(f"{name} is larger than {DOCUMENT_MAX_BYTES} bytes")


def _decoded(data: bytes, name: str) -> str:
    _bounded(data, name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidValueError(f"{name} is not UTF-8 (line {line}, byte {error.start})") from None


def _toml_fault(message: str) -> str:
    # tomllib's words for a key or a table that is there already.
    for words in ("Cannot overwrite a value", "Cannot declare", "Duplicate inline table key", "Cannot mutate"):
        if message.startswith(words):
            return f"a key or table is given twice{message[message.rfind(' (') :]}"
    return message


def _no_constant(text: str) -> Any:
    raise InvalidValueError(f"{text} is no JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidValueError(f"the key {shown(key)} is given twice in one object")
            seen.add(key)
    return value
