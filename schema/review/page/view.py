"""What the page says, in words: a review as the values that its template prints."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from schema.migrate.project import Revision
from schema.review.estimate import estimated
from schema.review.facts import LockMode, Statement, Trace
from schema.review.finding import Finding
from schema.review.page import graph
from schema.review.page.downgrade import Deed, deeds
from schema.review.page.timeline import Held, held
from schema.review.report import bytes_text, relative, verdict
from schema.review.review import Review, Reviewed

HEAD = 160
"""Characters of a statement that are shown before it is opened."""

_OF_ALEMBIC = re.compile(r"^(Revision ID|Revises|Create Date|Branch Labels|Depends on):.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Item:
    """A finding, open or accepted."""

    rule: str
    name: str
    severity: str
    """`accepted` for one that is."""
    message: str
    effect: str
    instead: str
    place: str
    """File and line."""
    statement: int | None
    reason: str
    """Why it is accepted."""
    tables: tuple[str, ...]
    """What it is about; the tables of its statement, or of the revision, where it names none."""


@dataclass(frozen=True)
class Bar:
    """A lock on the timeline; places in percent of its width."""

    name: str
    table: str
    """The same, or of an index its table."""
    mode: str
    strength: str
    """`exclusive` stops reads, `strong` stops writes, `weak` stops nothing that applications do."""
    words: str
    left: float
    width: float


@dataclass(frozen=True)
class Tick:
    """A statement on the timeline's scale."""

    at: float
    number: int
    named: bool
    commit: float | None
    """Where its transaction ends, when it is the last of one and not the last of all."""


@dataclass(frozen=True)
class Line:
    """A statement."""

    number: int
    line: int
    text: str
    head: str
    """Its beginning, in one line."""
    marks: tuple[str, ...]
    """What a reader must not miss: strong locks, rewrites, scans, errors."""
    facts: tuple[tuple[str, str], ...]
    to_open: bool


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
        return tuple(sorted({*(_table(self.trace, each) for each in self.locks), *named}))

    def _findings(self) -> Iterator[Finding]:
        yield from self.reviewed.findings
        yield from (finding for finding, _ in self.reviewed.accepted)

    @cached_property
    def items(self) -> list[Item]:
        """Findings, the worst first."""
        return [self._item(finding, str(finding.severity), "") for finding in self.reviewed.findings]

    @cached_property
    def accepted(self) -> list[Item]:
        """Findings that somebody has accepted."""
        return [self._item(finding, "accepted", entry.reason) for finding, entry in self.reviewed.accepted]

    def _item(self, finding: Finding, severity: str, reason: str) -> Item:
        tables: Iterable[str] = [finding.relation] if finding.relation else ()
        if not tables and finding.statement is not None:
            tables = {_table(self.trace, each) for each in self.locks if each.covers(finding.statement)}
        path = str(relative(finding.path))
        return Item(
            finding.rule.id,
            finding.rule.name,
            severity,
            finding.message,
            finding.rule.effect,
            finding.rule.instead,
            f"{path}:{finding.line}" if finding.line else path,
            finding.statement,
            reason,
            tuple(sorted(tables)) or self.tables,
        )

    @property
    def bars(self) -> Iterator[Bar]:
        """The lock timeline."""
        numbers = [each.number for each in self.trace.statements]
        for each in self.locks:
            first, last = numbers.index(each.first.number), numbers.index(each.last.number)
            unit = 100 / len(numbers)
            strength = "exclusive" if each.mode is LockMode.ACCESS_EXCLUSIVE else "strong"
            yield Bar(
                each.relation.name,
                _table(self.trace, each),
                str(each.mode),
                strength if each.mode.dangerous else "weak",
                self._in_words(each),
                round(first * unit, 3),
                round((last - first + 1) * unit, 3),
            )

    def _in_words(self, each: Held) -> str:
        first, last = each.first.number, each.last.number
        span = f"statement {first}" if first == last else f"statements {first} to {last}"
        table = _table(self.trace, each)
        size = None if self.review.sizes is None else self.review.sizes.get(table)
        seconds = estimated(self.trace, each.first, table, self.review.sizes)
        words = [f"{span}; blocks {each.mode.blocks}"]
        words += [] if size is None else [f"{size.rows:,} rows, {bytes_text(size.bytes)}"]
        words += [] if seconds is None else [f"about {seconds:,.1f} s or more"]
        return "; ".join(words)

    @property
    def ticks(self) -> Iterator[Tick]:
        """The timeline's scale."""
        statements = self.trace.statements
        unit = 100 / max(len(statements), 1)
        step = -(-len(statements) // 12)
        for place, each in enumerate(statements):
            following = statements[place + 1 : place + 2]
            ends = bool(following) and following[0].transaction != each.transaction
            commit = round((place + 1) * unit, 3) if ends else None
            yield Tick(round((place + 0.5) * unit, 3), each.number, place % step == 0, commit)

    @property
    def transactions(self) -> Iterator[tuple[str, list[Line]]]:
        """Statements, by transaction."""
        blamed = {each.statement for each in self._findings()}
        for number in dict.fromkeys(each.transaction for each in self.trace.statements):
            own = [each for each in self.trace.statements if each.transaction == number]
            alone = all(each.alone for each in own)
            title = f"Transaction {number}" + (", one statement committed by itself" if alone else "")
            yield title, [self._line(each, blamed=each.number in blamed) for each in own]

    def _line(self, each: Statement, *, blamed: bool) -> Line:
        text = textwrap.dedent(each.text.strip("\n")).strip()
        return Line(
            each.number,
            each.line,
            text,
            " ".join(text.split())[:HEAD],
            tuple(_marks(each)),
            tuple(self._facts(each)),
            blamed or each.error is not None,
        )

    def _facts(self, each: Statement) -> Iterator[tuple[str, str]]:
        def name(oid: int) -> str:
            return self.trace.relations[oid].name

        yield "Place", f"{self.path}:{each.line}"
        limits = ("lock_timeout", each.lock_timeout_ms), ("statement_timeout", each.statement_timeout_ms)
        yield "Timeouts", ", ".join(f"{name} {_duration(milliseconds)}" for name, milliseconds in limits)
        if self.times:
            yield "On the scratch server", f"{each.seconds * 1000:,.1f} ms"
        if each.rows is not None and each.rows >= 0:
            yield "Rows", f"{each.rows:,}"
        locks = [f"{lock.relation.name} {lock.mode}" for lock in each.locks]
        lists = {
            "Takes": locks,
            "Rewrites": [relation.name for relation in each.rewritten],
            "Scans": [f"{name(oid)} ({tuples:,} rows)" for oid, tuples in each.scanned.items()],
            "Writes": [f"{name(oid)} ({counts.total:,} rows)" for oid, counts in each.written.items()],
            "Creates": [relation.name for relation in each.created],
            "Drops": [relation.name for relation in each.dropped],
            "Renames": [f"{old.name} to {new.name}" for old, new in each.renamed],
            "Changes": [f"{change.key.kind} {change.key.identity}" for change in each.changes],
        }
        yield from ((title, ", ".join(entries)) for title, entries in lists.items() if entries)
        if each.notices:
            yield "Server says", "\n".join(each.notices)
        if each.error:
            yield "Error", f"{each.error} ({each.sqlstate})" if each.sqlstate else each.error

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
            return sum(not (each.items or each.accepted or each.error) for each in self.sections)
        if severity == "run":
            return sum(each.error is not None for each in self.sections) + len(self.missing)
        return sum(item.severity == severity for each in self.sections for item in [*each.items, *each.accepted])

    def numbers(self, tables: Sequence[str]) -> str:
        """Tables as their places in the list of them, for an attribute: names may hold anything, blanks included."""
        return " ".join(str(self._numbers[table]) for table in tables if table in self._numbers)


def anchor(revision: str, place: int) -> str:
    """Id of a revision's element: its own, when that can be one."""
    return f"r-{revision}" if re.fullmatch(r"[A-Za-z0-9_.-]+", revision) else f"n-{place}"


def icon(reviewed: Reviewed) -> str:
    """Name of the shape that stands for a verdict."""
    if reviewed.trace.error is not None:
        return "failed"
    worst = max((finding.severity for finding in reviewed.findings), default=None)
    if worst is None:
        return "accepted" if reviewed.accepted else "clean"
    return str(worst)


def _table(trace: Trace, each: Held) -> str:
    """The table that a lock is about: that of the index, if it is on one."""
    relation = each.relation
    known = None if relation.table is None else trace.relations.get(relation.table)
    return (known or relation).name


def _marks(each: Statement) -> Iterator[str]:
    if each.error is not None:
        yield "fails"
    strongest = max((lock.mode for lock in each.locks if lock.relation.is_table), default=None)
    if strongest is not None and strongest.dangerous:
        yield str(strongest)
    if any(relation.is_table for relation in each.rewritten):
        yield "rewrites"
    if any(each.scanned.values()):
        yield "scans"


def _duration(milliseconds: int) -> str:
    return "none" if not milliseconds else f"{milliseconds / 1000:g} s"
