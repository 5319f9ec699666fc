"""Environment variables: the one key pattern, with its Python and its SQL form."""

import re
from typing import Final

ENVIRON_KEY_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]*$"
"""Format of an environment key, a POSIX name; read alike by PostgreSQL's `~` and by Python's `re`."""

ENVIRON_KEY_MAX_LENGTH: Final = 256
"""Length of the key columns, in characters."""

_KEY = re.compile(ENVIRON_KEY_PATTERN)


def is_environ_key(text: str) -> bool:
    """Tell whether a key column would take `text`: pattern and length.

    `fullmatch`, because Python's `$` lets a trailing newline through and PostgreSQL's does not.
    """
    return len(text) <= ENVIRON_KEY_MAX_LENGTH and _KEY.fullmatch(text) is not None


def environ_key_check(column: str) -> str:
    """SQL condition of the CHECK on a key column, for the models."""
    return f"{column} ~ '{ENVIRON_KEY_PATTERN}'"
