"""The ledger of released revisions: hashes of what was released, so that a later edit is found."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schema.errors import ConfigError, RevisionError
from schema.lineage.bodies import PARTS, digests
from schema.lineage.files import Change
from schema.lineage.findings import Finding, Kind
from schema.lineage.git import Snapshot
from schema.lineage.graph import Graph
from schema.lineage.source import UnreadableError

FORMAT = 1
"""Version of the ledger file."""


@dataclass(frozen=True)
class Entry:
    """One released revision."""

    release: str
    """The first release that has it."""
    hashes: dict[str, str]
    """SHA-256 by part, as released or as last accepted."""
    accepted: tuple[str, ...] = ()
    """Reasons of the edits accepted since, oldest first."""


@dataclass(frozen=True)
class Ledger:
    """The committed file."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        """Read the ledger; an absent file is an empty one.

        Raises:
            ConfigError: the file is no ledger.
        """
        if not path.exists():
            return cls(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise ConfigError(f"{path} is a ledger of format {data['format']}, this version reads {FORMAT}")
            entries = {
                id_: Entry(entry["release"], {part: entry[part] for part in PARTS}, tuple(entry.get("accepted", ())))
                for id_, entry in data["revisions"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{path} is no integrity ledger", hint="Restore it from git, or resolve its merge conflict."
            ) from error
        return cls(path, entries)

    def change(self, entries: dict[str, Entry]) -> list[Change]:
        """The change that makes the file hold `entries`; none when it does."""
        before = self.path.read_bytes() if self.path.exists() else None
        # One revision a line: two branches that record different revisions merge, or conflict in one line.
        lines = [
            f"    {json.dumps(id_)}: "
            + json.dumps({"release": e.release, **e.hashes, **({"accepted": e.accepted} if e.accepted else {})})
            for id_, e in sorted(entries.items())
        ]
        text = f'{{\n  "format": {FORMAT},\n  "revisions": {{\n' + ",\n".join(lines) + "\n  }\n}\n"
        return [] if before == text.encode() else [Change(self.path, before, text.encode())]


def expected(ledger: Ledger, releases: Sequence[Snapshot]) -> dict[str, Entry]:
    """What every released revision has to be: its ledger entry, else what the first release with it has."""
    entries = dict(ledger.entries)
    for snapshot in releases:
        for id_, content in snapshot.contents.items():
            if id_ not in entries:
                try:
                    entries[id_] = Entry(snapshot.ref, digests(content, snapshot.graph.revisions[id_].path))
                except UnreadableError:
                    # It could not run as this release had it: the next release that has it counts.
                    continue
    return entries


def verify(graph: Graph, entries: dict[str, Entry]) -> list[Finding]:
    """Released revisions that were edited, removed, or cannot be read any more."""
    findings = []
    for id_, entry in sorted(entries.items()):
        if id_ not in graph.revisions:
            findings.append(Finding(Kind.EDITED, f"{id_} is part of {entry.release} and has no file any more", (id_,)))
            continue
        path = graph.revisions[id_].path
        try:
            now = digests(path.read_bytes(), path)
        except UnreadableError as error:
            findings.append(Finding(Kind.UNREADABLE, error.message, (id_,), (path,), error.hint))
            continue
        if changed := [part for part in PARTS if now[part] != entry.hashes[part]]:
            findings.append(
                Finding(
                    Kind.EDITED,
                    f"{path.name}: the {' and '.join(changed)} of {id_} changed since {entry.release}",
                    (id_,),
                    (path,),
                    f"Undo it and write a new revision, or `schemactl lineage integrity --accept {id_} --reason WHY`.",
                )
            )
    return findings


def accept(graph: Graph, entries: dict[str, Entry], id_: str, reason: str) -> dict[str, Entry]:
    """The entries with today's hashes of one revision, and why they may differ.

    Raises:
        RevisionError: the revision is not released, or has not changed.
    """
    entry = entries.get(id_)
    if entry is None:
        raise RevisionError(f"{id_} is in no release, so it may be edited", hint="There is nothing to accept.")
    path = graph.revisions[id_].path
    now = digests(path.read_bytes(), path)
    if now == entry.hashes:
        raise RevisionError(f"{id_} is as {entry.release} has it", hint="There is nothing to accept.")
    return {**entries, id_: Entry(entry.release, now, (*entry.accepted, reason))}
