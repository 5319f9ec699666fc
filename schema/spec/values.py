"""The values a spec is made of: each function returns what is stored, or says what was expected.

They raise InvalidValueError. An environment value is described by its length only, for it may be a secret.
"""

import re
from decimal import Decimal
from typing import Final

from schema.environ import ENVIRON_KEY_MAX_LENGTH, ENVIRON_KEY_PATTERN, is_environ_key
from schema.errors import InvalidValueError
from schema.identity import EnvironKey, KernelGroupRole, ResourceSlotName
from schema.quantity import parse_byte_size, parse_slot_quantity

CLUSTER_MODES: Final = ("single-node", "multi-node")
"""The cluster modes; a test holds them to the models'."""

ROLE_MAX_LENGTH: Final = 16
"""Longest role: `kernels.cluster_role` is shorter than `kernel_groups.role`."""

IMAGE_MAX_LENGTH: Final = 512
ARCHITECTURE_MAX_LENGTH: Final = 32
SCRIPT_MAX_LENGTH: Final = 16384
"""Longest bootstrap script, in characters: what `kernels.bootstrap_script` holds."""

MAX_KERNELS: Final = 100_000
"""Most kernels of one session."""

_IMAGE = re.compile(r"[^\s/]+/(?:[^\s/:]+/)*[^\s/:]+:[^\s/:]+")
_SHOWN = 64


def kind_of(value: object) -> str:
    """What a value is, for a message that doesn't show it."""
    kinds: dict[type, str] = {bool: "a boolean", int: "an integer", Decimal: "a number", float: "a float"}
    if isinstance(value, str):
        return "text"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return kinds.get(type(value), f"a {type(value).__name__}")


def shown(text: str) -> str:
    """A name for a message: quoted, control characters escaped, cut when long."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text)} characters)"


def plain_text(value: object, limit: int | None = None) -> str:
    """Text that PostgreSQL stores as it is."""
    if not isinstance(value, str):
        raise InvalidValueError(f"expected text, found {kind_of(value)}")
    if limit is not None and len(value) > limit:
        raise InvalidValueError(f"expected at most {limit} characters, found {len(value)}")
    if (fault := _unstorable(value)) is not None:
        raise InvalidValueError(f"expected text without {fault}")
    return value


def image_name(value: object) -> str:
    """Canonical name of an image, `registry/project/name:tag`."""
    text = plain_text(value, IMAGE_MAX_LENGTH)
    if _IMAGE.fullmatch(text) is None:
        raise InvalidValueError(f"expected a canonical name registry/project/name:tag, found {shown(text)}")
    return text


def architecture(value: object) -> str:
    """Name of a processor architecture, such as `x86_64`."""
    text = plain_text(value, ARCHITECTURE_MAX_LENGTH)
    if len(text.split()) != 1 or text != text.strip():
        raise InvalidValueError(f"expected one word such as x86_64, found {shown(text)}")
    return text


def slot_name(value: object) -> ResourceSlotName:
    """Name of a resource slot; whether there is such a slot, the database knows."""
    text = plain_text(value, ResourceSlotName.max_length)
    if not text.strip():
        raise InvalidValueError("expected the name of a resource slot, found a blank one")
    return ResourceSlotName(text)


def is_slot_name(text: str) -> bool:
    """Tell whether a text can be the name of a resource slot."""
    try:
        slot_name(text)
    except InvalidValueError:
        return False
    return True


def slot_quantity(value: object) -> Decimal:
    """Quantity of a resource slot: a decimal, or a byte size."""
    return parse_slot_quantity(_number(value))


def byte_size(value: object) -> int:
    """A size in bytes."""
    return parse_byte_size(_number(value))


def environ_key(value: object) -> EnvironKey:
    """Name of an environment variable."""
    if not isinstance(value, str):
        raise InvalidValueError(f"expected the name of an environment variable, found {kind_of(value)}")
    if not is_environ_key(value):
        raise InvalidValueError(
            f"{shown(value)} is no environment key: expected {ENVIRON_KEY_PATTERN}, "
            f"at most {ENVIRON_KEY_MAX_LENGTH} characters"
        )
    return EnvironKey(value)


def environ_value(value: object) -> str:
    """Value of an environment variable; it may be empty."""
    if not isinstance(value, str):
        raise InvalidValueError(f"expected text, found {kind_of(value)}", hint="Put it between quotes.")
    if (fault := _unstorable(value)) is not None:
        raise InvalidValueError(f"expected text without {fault}, found it in a value of {len(value)} characters")
    return value


def bootstrap_script(value: object) -> str:
    """A script that kernels run before their start-up command."""
    return plain_text(value, SCRIPT_MAX_LENGTH)


def ports(value: object) -> tuple[int, ...]:
    """Port numbers, in the order given."""
    if not isinstance(value, list | tuple):
        raise InvalidValueError(f"expected a list of port numbers, found {kind_of(value)}")
    for port in value:
        if type(port) is not int or not 0 < port < 65536:
            found = port if type(port) is int and port.bit_length() < 64 else kind_of(port)
            raise InvalidValueError(f"expected port numbers from 1 to 65535, found {found}")
    return tuple(value)


def cluster_mode(value: object) -> str:
    """Whether a session's kernels share one agent."""
    if value not in CLUSTER_MODES:
        found = shown(value) if isinstance(value, str) else kind_of(value)
        raise InvalidValueError(f"expected {' or '.join(CLUSTER_MODES)}, found {found}")
    return str(value)


def kernel_count(value: object) -> int:
    """How many kernels: at least one."""
    if type(value) is not int or not 0 < value <= MAX_KERNELS:
        found = value if type(value) is int and value.bit_length() < 64 else kind_of(value)
        raise InvalidValueError(f"expected a whole number from 1 to {MAX_KERNELS}, found {found}")
    return value


def role(value: object) -> KernelGroupRole:
    """Role of a kernel group in its session."""
    text = plain_text(value, ROLE_MAX_LENGTH)
    if len(text.split()) != 1 or text != text.strip():
        raise InvalidValueError(f"expected one word such as main, found {shown(text)}")
    return KernelGroupRole(text)


def shmem_fault(shmem: int | None, mem: Decimal | None) -> str | None:
    """Say what is wrong when shared memory, a carve-out of the memory asked for, doesn't fit into it."""
    if shmem is None or mem is None or shmem < mem:
        return None
    return f"shmem of {shmem} bytes is not below mem, {mem:f} bytes: expected a part of it"


def _number(value: object) -> str | int | Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise InvalidValueError(f'expected a number, or text such as "4g", found {kind_of(value)}')
    return value


def _unstorable(text: str) -> str | None:
    if "\0" in text:
        return "a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "half of a surrogate pair"
    return None
