"""The HEAD file: one committed line with the one head, so that two heads are a conflict in git."""

from pathlib import Path

from schema.lineage.files import Change
from schema.lineage.findings import Finding, Kind
from schema.lineage.graph import Graph


def check_head_file(graph: Graph, path: Path) -> list[Finding]:
    """What is wrong with the HEAD file; nothing when the project has none."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    if text.split() == list(graph.heads):
        return []
    written = " ".join(text.split()) or "nothing"
    return [
        Finding(
            Kind.HEAD_FILE,
            f"{path} says {written}, the files say {' '.join(graph.heads) or 'nothing'}",
            graph.heads,
            (path,),
            "`schemactl heads --write` corrects it once there is one head.",
        )
    ]


def head_change(path: Path, head: str, *, create: bool = False) -> list[Change]:
    """The change that makes the HEAD file name `head`; none when it does, or when the project has no such file."""
    before = path.read_bytes() if path.exists() else None
    after = f"{head}\n".encode()
    return [] if before == after or (before is None and not create) else [Change(path, before, after)]
