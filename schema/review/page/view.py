"""What the page says, in words: a review as the values that its template prints."""

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from schema.migrate.project import Revision
from schema.review.facts import Trace
from schema.review.finding import Finding
from schema.review.page import graph
from schema.review.page.downgrade import Deed, deeds
from schema.review.page.groups import Group, grouped
from schema.review.page.statements import Line, transactions
from schema.review.page.timeline import Bar, Held, Tick, bars, held, ticks
from schema.review.report import relative, verdict
from schema.review.review import Review, Reviewed

_OF_ALEMBIC = re.compile(r"^(Revision ID|Revises|Create Date|Branch Labels|Depends on):.*\n?", re.MULTILINE)


class Section:
    """One revision."""

    def __init__(self, review: Review, reviewed: Reviewed, anchor: str, *, times: bool) -> None:
        self.review, self.reviewed, self.anchor, self.times = review, reviewed, anchor, times
        self.trace: Trace = reviewed.trace
        self.revision: Revision = self.trace.revision
        self.verdict = verdict(reviewed)
        self.icon = icon(reviewed)
        self.path = str(relative(self.revision.path))
        self.locks: list[Held] = held(self.trace)

    @property
    def error(self) -> str | None:
        """Why it could not be run to its end."""
        return self.trace.error

    @cached_property
    def docstring(self) -> str:
        """What its author says below the title; without the lines that Alembic writes."""
        try:
            text = ast.get_docstring(ast.parse(self.revision.path.read_text(encoding="utf-8"))) or ""
        except (OSError, ValueError, SyntaxError):
            return ""
        return inspect.cleandoc(_OF_ALEMBIC.sub("", text.partition("\n")[2]))

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """What it locks, or is found fault with for."""
        named = [each.relation for each in self._findings() if each.relation]
        return tuple(sorted({*(each.table for each in self.locks), *named}))

    def _findings(self) -> Iterator[Finding]:
        yield from self.reviewed.findings
        yield from (finding for finding, _ in self.reviewed.accepted)

    @cached_property
    def findings(self) -> list[Group]:
        """What is open, the worst first."""
        return grouped([(finding, "") for finding in self.reviewed.findings], self._tables_of)

    @cached_property
    def accepted(self) -> list[Group]:
        """What somebody has accepted."""
        return grouped([(finding, entry.reason) for finding, entry in self.reviewed.accepted], self._tables_of)

    def _tables_of(self, finding: Finding) -> tuple[str, ...]:
        if finding.relation:
            return (finding.relation,)
        at = finding.statement
        return tuple(sorted({each.table for each in self.locks if at is not None and each.covers(at)})) or self.tables

    @property
    def bars(self) -> list[Bar]:
        """The lock timeline."""
        return bars(self.trace, self.locks, self.review.sizes)

    @property
    def ticks(self) -> list[Tick]:
        """The timeline's scale."""
        return ticks(self.trace)

    @property
    def transactions(self) -> list[tuple[str, list[Line]]]:
        """Statements, by transaction."""
        blamed = {each.statement for each in self._findings()}
        return transactions(self.trace, blamed, times=self.times)

    @property
    def deeds(self) -> list[Deed]:
        """Down, up again, and again after a failure."""
        return deeds(self.reviewed)


@dataclass(frozen=True)
class Missing:
    """A revision that could not be run at all."""

    anchor: str
    revision: Revision
    path: str
    why: str


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
        self.width, self.drawings = graph.draw(graph.rows(nodes))
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


def icon(reviewed: Reviewed) -> str:
    """Name of the shape that stands for a verdict."""
    if reviewed.trace.error is not None:
        return "failed"
    worst = max((finding.severity for finding in reviewed.findings), default=None)
    if worst is None:
        return "accepted" if reviewed.accepted else "clean"
    return str(worst)
