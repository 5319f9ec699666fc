"""What the page says, in words: a review as the values that its template prints."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schema.migrate.project import Revision
from schema.review.facts import Trace
from schema.review.finding import Finding
from schema.review.page import graph
from schema.review.page.downgrade import Deed, deeds
from schema.review.page.groups import Group, grouped
from schema.review.page.statements import transactions
from schema.review.page.timeline import Bar, Tick, bars, held, ticks
from schema.review.report import relative, verdict
from schema.review.review import Review, Reviewed

_OF_ALEMBIC = re.compile(r"^(Revision ID|Revises|Create Date|Branch Labels|Depends on):.*\n?", re.MULTILINE)


class Section:
    """One revision."""

    def __init__(self, review: Review, reviewed: Reviewed, anchor: str, *, times: bool) -> None:
        self.anchor = anchor
        self.trace: Trace = reviewed.trace
        self.revision: Revision = self.trace.revision
        self.error: str | None = self.trace.error
        self.verdict = verdict(reviewed)
        self.icon = icon(reviewed)
        self.path = str(relative(self.revision.path))
        self.docstring = docstring(self.revision.path)
        self._locks = held(self.trace)
        accepted = [(finding, entry.reason) for finding, entry in reviewed.accepted]
        found = [*reviewed.findings, *(finding for finding, _ in accepted)]
        self.tables = sorted({each.table for each in self._locks} | {each.relation for each in found if each.relation})
        """What it locks, or is found fault with for."""
        self.findings: list[Group] = grouped([(finding, "") for finding in reviewed.findings], self._tables_of)
        self.accepted: list[Group] = grouped(accepted, self._tables_of)
        self.bars: list[Bar] = bars(self.trace, self._locks, review.sizes)
        self.ticks: list[Tick] = ticks(self.trace)
        self.transactions = transactions(self.trace, {each.statement for each in found}, times=times)
        self.deeds: list[Deed] = deeds(reviewed)

    def _tables_of(self, finding: Finding) -> list[str]:
        if finding.relation:
            return [finding.relation]
        at = finding.statement
        return sorted({each.table for each in self._locks if at is not None and each.covers(at)}) or self.tables


@dataclass(frozen=True)
class Missing:
    """A revision that could not be run at all."""

    anchor: str
    revision: Revision
    path: str
    why: str
    icon: str = "failed"
    verdict: str = "could not run"


class View:
    """Everything that the page says."""

    def __init__(self, review: Review, *, times: bool) -> None:
        self.review = review
        seen = {each.trace.revision.id for each in review.reviewed}
        self.sections = [
            Section(review, each, anchor(each.trace.revision.id, place), times=times)
            for place, each in enumerate(review.reviewed)
        ]
        self.missing = [
            Missing(anchor(revision.id, len(seen) + place), revision, str(relative(revision.path)), why)
            for place, (revision, why) in enumerate(review.faults)
            if revision.id not in seen
        ]
        self.tables = sorted({table for section in self.sections for table in section.tables})
        self._numbers = {table: number for number, table in enumerate(self.tables)}
        nodes = [graph.Node(each.revision.id, each.trace.parents) for each in self.sections]
        nodes += [graph.Node(each.revision.id, ()) for each in self.missing]
        self.width, drawings = graph.draw(graph.rows(nodes))
        self.history = list(zip([*self.sections, *self.missing], drawings, strict=True))
        self.anchors = {section.revision.id: section.anchor for section in self.sections}

    @property
    def where(self) -> list[str]:
        """How the review was made."""
        return [
            f"PostgreSQL {self.review.server_version // 10000}",
            "deployed as one" if self.review.together else "each as if deployed alone",
            "sizes of production known" if self.review.sizes is not None else "sizes of production not known",
        ]

    def count(self, severity: str) -> int:
        """Findings of a severity, `accepted` ones, revisions that are `clean`, or that could not `run`."""
        if severity == "clean":
            return sum(not (each.findings or each.accepted or each.error) for each in self.sections)
        if severity == "run":
            return sum(each.error is not None for each in self.sections) + len(self.missing)
        groups = [group for each in self.sections for group in [*each.findings, *each.accepted]]
        return sum(len(group.items) for group in groups if group.severity == severity)

    def numbers(self, tables: Sequence[str]) -> str:
        """Tables as their places in the list of them, for an attribute: names may hold anything, blanks included."""
        return " ".join(str(self._numbers[table]) for table in tables)


def anchor(revision: str, place: int) -> str:
    """Id of a revision's element: its own, when that can be one. What is within adds to it behind a `-`."""
    return f"r-{revision}" if re.fullmatch(r"[A-Za-z0-9_.]+", revision) else f"n-{place}"


def docstring(path: Path) -> str:
    """What a revision's author says below the title; without the lines that Alembic writes."""
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except (OSError, ValueError, SyntaxError):
        return ""
    return _OF_ALEMBIC.sub("", text.partition("\n")[2]).strip()


def icon(reviewed: Reviewed) -> str:
    """Name of the shape that stands for a verdict."""
    if reviewed.trace.error is not None:
        return "failed"
    worst = max((finding.severity for finding in reviewed.findings), default=None)
    if worst is None:
        return "accepted" if reviewed.accepted else "clean"
    return str(worst)
