"""Layers of values, and the merge: a later layer wins, value by value; nothing is changed in place.

A layer maps paths to entries: `("image",)`, `("resource_slots", "cpu")`. Fields with keys lie flat among the others,
so that one rule merges all of them, and is associative.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from schema.spec.draft import RuntimeVariant

Path: TypeAlias = tuple[str, ...]
"""A field's name, with the key in it for the three tables."""

KEYED_FIELDS: Final = ("resource_slots", "resource_opts", "environ")
"""The fields that merge key by key."""

REQUEST: Final = "request"
DEFINITION: Final = "definition"


class Precedence(StrEnum):
    """Which document wins where both give a value."""

    DEFINITION = "definition"
    REQUEST = "request"


class Entry(NamedTuple):
    """A value and where it came from."""

    value: object
    source: str
    """`request`, `definition`, or the definition's section of a variant: `definition:vllm`."""


Layer: TypeAlias = Mapping[Path, Entry]


def merge(*layers: Layer) -> dict[Path, Entry]:
    """Merge layers, the strongest last."""
    merged: dict[Path, Entry] = {}
    for layer in layers:
        merged.update(layer)
    return merged


def merge_documents(request: Layer, root: Layer, section: Layer, precedence: Precedence) -> dict[Path, Entry]:
    """Merge a request with a definition's root and its section of the variant."""
    if precedence is Precedence.DEFINITION:
        return merge(request, root, section)
    return merge(root, section, request)


def is_missing(value: object) -> bool:
    """Tell whether a value counts as not given: null, or blank text."""
    return value is None or (isinstance(value, str) and not value.strip())


def place_of(path: Path, source: str) -> str:
    """Name the place of a value in its document, for a message."""
    if source == REQUEST:
        return f"request field {_dotted(path)}"
    _, _, variant = source.partition(":")
    section = (variant,) if variant else ()
    return f"definition key {_dotted((*section, *toml_path(path)))}"


def places_of(path: Path, variant: RuntimeVariant) -> str:
    """Name every place that a missing value could have come from."""
    request = place_of(path, REQUEST)
    if toml_path(path) == path and path[0] not in KEYED_FIELDS:
        return request
    return f"{request} or {place_of(path, f'{DEFINITION}:{variant}')} or {place_of(path, DEFINITION)}"


def toml_path(path: Path) -> Path:
    """Path in a service definition, where image and architecture stand under `environment`."""
    return ("environment", *path) if path in (("image",), ("architecture",)) else path


def _dotted(path: Path) -> str:
    return ".".join(map(toml_key, path))


def toml_key(key: str) -> str:
    """Write a key as TOML does: bare if it can be, else quoted; cut when long."""
    if key.isascii() and key.replace("-", "_").replace("_", "a").isalnum():
        return key if len(key) <= 64 else f"{key[:64]}..."
    quoted = key[:64].replace("\\", "\\\\").replace('"', '\\"')
    escaped = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in quoted)
    return f'"{escaped}"' if len(key) <= 64 else f'"{escaped}..."'
