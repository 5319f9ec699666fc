"""What the lineage commands share: the project, its findings in every format, and its changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schema.cli.context import App
from schema.errors import ExitCode
from schema.lineage.findings import Finding
from schema.lineage.graph import Graph, load
from schema.lineage.layout import Layout, read_layout

if TYPE_CHECKING:
    from schema.lineage.files import Change
    from schema.lineage.git import Repository, Snapshot


def layout_of(app: App) -> Layout:
    """Where the project that -c names, or the one here, has its files; says so when it is neither."""
    layout = read_layout(app.config)
    if not layout.chosen:
        app.status(f"No alembic.ini here: this is the history of {layout.config}.")
    if not any(folder.is_dir() for folder in layout.version_locations):
        app.status(f"Warning: there is no folder {', '.join(map(str, layout.version_locations))}.")
    return layout


@dataclass(frozen=True)
class Project:
    """The project of one call; git is asked only when something wants to know."""

    layout: Layout
    graph: Graph

    @classmethod
    def read(cls, app: App, *, thorough: bool = False) -> "Project":
        """Read the project that -c names, or the one here."""
        layout = layout_of(app)
        return cls(layout, load(layout, thorough=thorough))

    @cached_property
    def repository(self) -> "Repository | None":
        """The git repository around it."""
        from schema.lineage.git import Repository

        return Repository.around(self.layout)

    def where_is(self, revision: str) -> str | None:
        """The git ref that has a revision which has no file here."""
        return self.repository.ref_with(revision) if self.repository else None

    def releases(self, app: App, refs: Sequence[str]) -> "list[Snapshot]":
        """The released histories; says so when there is none."""
        from schema.lineage.git import released

        found = released(self.repository, refs)
        if not found:
            app.status("No git tag and no --released-ref: nothing is known to be released.")
        for snapshot in found:
            # Silence here would pass for a release that is safe.
            if not snapshot.graph.files:
                app.status(f"Warning: {snapshot.ref} has no revision files where they are now, so it says nothing.")
            for error in snapshot.graph.unreadable:
                app.status(f"Warning: in {snapshot.ref}, {error.message}; that revision is not counted as released.")
        return found


AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

released_ref = click.option(
    "--released-ref",
    "refs",
    metavar="REF",
    multiple=True,
    help="A ref that counts as released; repeatable. Default: every tag.",
)

version_table = click.option(
    "--version-table", metavar="[SCHEMA.]TABLE", default="alembic_version", help="Where databases keep their stamp."
)


def urls_option(what: str) -> Callable[[AnyFunction], AnyFunction]:
    """The repeatable --url of a command that reads version tables."""
    return click.option("--url", "urls", metavar="URL", multiple=True, help=f"{what}; repeatable.")


def findings_code(findings: Sequence[Finding]) -> ExitCode:
    """3 when there is any."""
    return ExitCode.FINDINGS if findings else ExitCode.OK


def findings_data(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings for JSON."""
    return [
        {
            "kind": finding.kind.value,
            "message": finding.message,
            "revisions": list(finding.revisions),
            "files": [str(path) for path in finding.files],
            "hint": finding.hint,
        }
        for finding in findings
    ]


def findings_text(findings: Sequence[Finding]) -> str:
    """Findings for people: one paragraph each."""
    return "\n".join(
        f"{finding.kind}: {finding.message.rstrip('.')}." + (f" {finding.hint}" if finding.hint else "")
        for finding in findings
    )


def findings_github(findings: Sequence[Finding]) -> str:
    """Findings as workflow commands, one per file."""
    lines = []
    for finding in findings:
        message = _workflow(f"{finding.message}. {finding.hint}".strip())
        for path in finding.files or (None,):
            where = f" file={_workflow(str(_relative(path)))}," if path else " "
            lines.append(f"::error{where}title=lineage {finding.kind}::{message}")
    return "\n".join(lines)


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _workflow(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def changes_text(changes: "Sequence[Change]") -> str:
    """A plan as a unified diff."""
    import difflib

    lines: list[str] = []
    for change in changes:
        before = (change.before or b"").decode("utf-8", "replace").splitlines()
        after = change.after.decode("utf-8", "replace").splitlines()
        old = "/dev/null" if change.before is None else str(_relative(change.path))
        lines += difflib.unified_diff(before, after, old, str(_relative(change.path)), lineterm="", n=1)
    return "\n".join(lines)


def changes_data(changes: "Sequence[Change]") -> list[dict[str, Any]]:
    """A plan for JSON."""
    return [{"file": str(change.path), "new": change.before is None} for change in changes]
