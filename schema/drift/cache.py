"""What earlier runs have made of the same input, kept as JSON in the user's cache and never in a project."""

import hashlib
import json
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from schema.drift.workshop import Workshop


def digest_of(workshop: Workshop, parts: Iterable[bytes]) -> str:
    """A name made of all that goes into a result, the server and this package included."""
    digest = hashlib.sha256()
    about = (
        version("schemactl"),
        str(workshop.server_version),
        workshop.creator,
        repr(workshop.like or workshop.template),
    )
    for part in (*(text.encode() for text in about), *parts):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


def cache_path(kind: str, workshop: Workshop, parts: Iterable[bytes]) -> Path:
    """Where a result belongs, by all that goes into it."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "schemactl"
    return folder / f"{kind}-{digest_of(workshop, parts)}.json"


def load(path: Path) -> dict[str, Any] | None:
    """What was kept there; None when there is nothing that can be read."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data


def keep(path: Path, data: dict[str, Any]) -> None:
    """Keep it. A cache that cannot be written costs time only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place, so that a reader never sees half of it.
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(data, separators=(",", ":"), ensure_ascii=False), encoding="utf-8")
        fresh.replace(path)
    except OSError:
        return
