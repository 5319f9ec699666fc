"""The statements of a revision, and what each was seen to do, in words."""

import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from schema.review.facts import Statement, Trace
from schema.review.page.timeline import strongest

HEAD = 160
"""Characters of a statement that are shown before it is opened."""


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


def transactions(trace: Trace, blamed: Collection[int | None], *, times: bool) -> list[tuple[str, list[Line]]]:
    """Statements by transaction, with a title for each; those that commit by themselves stand together.

    Args:
        trace: the revision.
        blamed: numbers of the statements that findings are about.
        times: say how long each took.
    """
    found = []
    for _, together in groupby(trace.statements, lambda each: 0 if each.alone else each.transaction):
        own = list(together)
        lines = [_line(trace, each, blamed=each.number in blamed, times=times) for each in own]
        found.append((_title(own), lines))
    return found


def _title(statements: list[Statement]) -> str:
    first, last = statements[0], statements[-1]
    if first.transaction != last.transaction:
        return f"Transactions {first.transaction} to {last.transaction}, each statement committed by itself"
    return f"Transaction {first.transaction}" + (", one statement committed by itself" if first.alone else "")


def _line(trace: Trace, each: Statement, *, blamed: bool, times: bool) -> Line:
    text = textwrap.dedent(each.text.strip("\n")).strip()
    return Line(
        each.number,
        each.line,
        text,
        " ".join(text.split())[:HEAD],
        tuple(_marks(each)),
        tuple(_facts(trace, each, times=times)),
        blamed or each.error is not None,
    )


def _facts(trace: Trace, each: Statement, *, times: bool) -> Iterator[tuple[str, str]]:
    def name(oid: int) -> str:
        return trace.relations[oid].name

    limits = ("lock_timeout", each.lock_timeout_ms), ("statement_timeout", each.statement_timeout_ms)
    yield "Timeouts", ", ".join(f"{setting} {_duration(milliseconds)}" for setting, milliseconds in limits)
    if times:
        yield "On the scratch server", f"{each.seconds * 1000:,.1f} ms"
    if each.rows is not None and each.rows >= 0:
        yield "Rows", f"{each.rows:,}"
    if locks := sorted(strongest(each), key=lambda lock: (-lock.mode, lock.relation.name)):
        yield "Locks", ", ".join(f"{lock.relation.name} {lock.mode}" for lock in locks)
    lists = {
        "Rewrites": [relation.name for relation in each.rewritten],
        "Scans": [f"{name(oid)} ({tuples:,} rows)" for oid, tuples in each.scanned.items()],
        "Writes": [f"{name(oid)} ({counts.total:,} rows)" for oid, counts in each.written.items()],
        "Creates": [relation.name for relation in each.created],
        "Drops": [relation.name for relation in each.dropped],
        "Renames": [f"{old.name} to {new.name}" for old, new in each.renamed],
        "Changes": [f"{change.key.kind} {change.key.identity}" for change in each.changes],
    }
    # The server has no order for most of these.
    yield from ((title, ", ".join(sorted(entries))) for title, entries in lists.items() if entries)
    if each.notices:
        yield "Server says", "\n".join(each.notices)
    if each.error:
        yield "Error", f"{each.error} ({each.sqlstate})" if each.sqlstate else each.error


def _marks(each: Statement) -> Iterator[str]:
    if each.error is not None:
        yield "fails"
    mode = max((lock.mode for lock in each.locks if lock.relation.is_table), default=None)
    if mode is not None and mode.dangerous:
        yield str(mode)
    if any(relation.is_table for relation in each.rewritten):
        yield "rewrites"
    if any(each.scanned.values()):
        yield "scans"


def _duration(milliseconds: int) -> str:
    return "none" if not milliseconds else f"{milliseconds / 1000:g} s"
