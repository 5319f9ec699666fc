"""Drift that the project has decided to live with, listed in its pyproject.toml with a reason and an end."""

import datetime
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from schema.drift.difference import Difference
from schema.errors import ConfigError, RevisionError
from schema.migrate.project import Project

_KEYS = {"object", "reason", "expires"}
_TABLE = "[[tool.schemactl.drift.accept]]"


@dataclass(frozen=True)
class Acceptance:
    """One entry: which objects, why, and until when."""

    pattern: str
    """Matched against the kind and identity, and against them with `: attribute`; `*` and `?` as in a shell."""
    reason: str
    expires: datetime.date | str | None
    """A date, or the revision that ends it."""

    def covers(self, difference: Difference) -> bool:
        """Whether the entry is about this difference."""
        subject = f"{difference.kind} {difference.identity}"
        names = [subject, *([f"{subject}: {difference.attribute}"] if difference.attribute else [])]
        return any(fnmatchcase(name, self.pattern) for name in names)

    def expired(self, today: datetime.date, project: Project, current: Sequence[str]) -> bool:
        """Whether its end has come: the day is past, or the database (else the history) has the revision."""
        if isinstance(self.expires, datetime.date):
            return today > self.expires
        if self.expires is None:
            return False
        try:
            revision = project.revision(self.expires).id
        except RevisionError:
            return False
        reached = (
            project.script.iterate_revisions(tuple(current), "base") if current else project.script.walk_revisions()
        )
        return revision in {script.revision for script in reached}


def read_acceptances(project: Project) -> tuple[Acceptance, ...]:
    """Read the entries of the pyproject.toml beside the ini or above it; none when there is no such file.

    Raises:
        ConfigError: the file or an entry cannot be read; the message names it.
    """
    folder = project.ini.absolute().parent
    path = next(
        (place / "pyproject.toml" for place in (folder, *folder.parents) if (place / "pyproject.toml").is_file()), None
    )
    if path is None:
        return ()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    entries: Any = data.get("tool", {}).get("schemactl", {}).get("drift", {}).get("accept", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{_TABLE} in {path} is not an array of tables", hint=f"Write {_TABLE} above each entry.")
    return tuple(_entry(entry, number, path) for number, entry in enumerate(entries, start=1))


def _entry(entry: Any, number: int, path: Path) -> Acceptance:
    where = f"entry {number} of {_TABLE} in {path}"
    if not isinstance(entry, dict) or not _KEYS.issuperset(entry):
        raise ConfigError(f"{where} has other keys than {', '.join(sorted(_KEYS))}")
    pattern, reason, expires = entry.get("object"), entry.get("reason"), entry.get("expires")
    if not isinstance(pattern, str) or not isinstance(reason, str) or not pattern.strip() or not reason.strip():
        raise ConfigError(
            f"{where} lacks an object or a reason", hint='Write object = "index public.ix_*" and reason = "…".'
        )
    if isinstance(expires, str):
        try:
            expires = datetime.date.fromisoformat(expires)
        except ValueError:
            pass  # then it names a revision
    elif isinstance(expires, datetime.datetime):
        expires = expires.date()
    if expires is not None and not isinstance(expires, datetime.date | str):
        raise ConfigError(f"expires of {where} is neither a date nor a revision")
    return Acceptance(pattern, reason, expires)


def unused(entries: Iterable[Acceptance], differences: Sequence[Difference]) -> list[Acceptance]:
    """Entries that no difference needs any more."""
    return [entry for entry in entries if not any(entry.covers(each) for each in differences)]
