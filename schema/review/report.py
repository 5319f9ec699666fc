"""A review as data, as text, as Markdown, and as annotations for GitHub."""

import textwrap
from pathlib import Path
from typing import Any

from schema.review.estimate import estimated
from schema.review.facts import LockMode, Statement, Trace
from schema.review.finding import Finding, Severity
from schema.review.review import Review, Reviewed

MARKDOWN_LIMIT = 60_000
"""Characters; a comment on GitHub may have 65,536."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def verdict(reviewed: Reviewed) -> str:
    """One or two words on a revision."""
    if reviewed.trace.error is not None:
        return "could not run"
    worst = max((finding.severity for finding in reviewed.findings), default=None)
    return "clean" if worst is None else f"{worst}s" if worst is Severity.NOTE else str(worst)


def as_data(review: Review) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "server_version": review.server_version,
        "together": review.together,
        "revisions": [_revision(review, each) for each in review.reviewed],
        "faults": [
            {"revision": revision.id, "file": str(revision.path), "message": why} for revision, why in review.faults
        ],
        "unfilled": [{"table": each.table, "reason": each.reason} for each in review.unfilled],
        "notes": review.notes,
    }


def as_text(review: Review) -> str:
    """One screen per revision."""
    parts = [_screen(review, each) for each in review.reviewed]
    parts += [f"Could not review {revision.id}: {why}" for revision, why in review.faults]
    parts += [f"No rows could be made for {each.table}: {each.reason}." for each in review.unfilled]
    parts += [f"Note: {note}" for note in review.notes]
    return "\n\n".join([*parts, summary(review)])


def as_github(review: Review) -> str:
    """An annotation per finding, at its file and line."""
    lines = []
    for finding in review.findings:
        where = f"file={_property(str(relative(finding.path)))},line={finding.line or 1}"
        title = _property(f"{finding.rule.id}: {finding.rule.name}")
        text = _message(f"{finding.message}. {finding.rule.effect}" + _instead(finding))
        lines.append(f"::{_LEVELS[finding.severity]} {where},title={title}::{text}")
    lines += [
        f"::error file={_property(str(relative(revision.path)))},title=could not review::{_message(why)}"
        for revision, why in review.faults
    ]
    return "\n".join(lines)


def as_markdown(review: Review) -> str:
    """Summary first; where it grows too long, whole revisions are left out at the end and counted."""
    lines = ["# Review of revisions", "", summary(review), "", "| revision | verdict | findings | locks |"]
    lines += ["| --- | --- | --- | --- |"]
    for each in review.reviewed:
        revision = each.trace.revision
        strong = [f"{mode} on `{name}`" for name, mode, *_ in lock_table(each.trace) if mode.dangerous]
        cells = (verdict(each), str(len(each.findings)), ", ".join(strong) or "none")
        lines.append(f"| `{revision.id}` {_cell(revision.title)} | {' | '.join(cells)} |")
    lines += ["", *(f"> **Could not review `{revision.id}`:** {_cell(why)}\n" for revision, why in review.faults)]
    lines += [f"> No rows could be made for `{each.table}`: {_cell(each.reason)}\n" for each in review.unfilled]
    text = "\n".join(lines)
    left = 0
    for each in review.reviewed:
        section = _section(each)
        # Room for the last line.
        if left or len(text) + len(section) > MARKDOWN_LIMIT - 200:
            left += bool(section)
        else:
            text += section
    text = text[: MARKDOWN_LIMIT - 200]
    if left:
        text += f"\n\nDetails of {left} more revisions are left out here: `schemactl review` prints them all."
    return text


def summary(review: Review) -> str:
    """One line."""
    counts = {level: sum(finding.severity is level for finding in review.findings) for level in reversed(Severity)}
    told = ", ".join(f"{count} {level}{'s' if count != 1 else ''}" for level, count in counts.items())
    accepted = sum(len(each.accepted) for each in review.reviewed)
    sizes = "" if review.sizes is not None else " Production sizes are not known (--stats gives them)."
    number = len(review.reviewed)
    return (
        f"{number} revision{'s' if number != 1 else ''} on PostgreSQL {review.server_version // 10000}: {told}"
        + (f", {accepted} accepted" if accepted else "")
        + (f", {len(review.faults)} could not be reviewed" if review.faults else "")
        + f".{sizes}"
    )


def lock_table(trace: Trace) -> list[tuple[str, LockMode, Statement, Statement]]:
    """Per table and transaction: the strongest lock, the statement that takes it, the last that runs under it."""
    strongest: dict[tuple[str, int], tuple[str, LockMode, Statement, Statement]] = {}
    for statement in trace.statements:
        for lock in statement.locks:
            key = (lock.relation.name, statement.transaction)
            known = strongest.get(key)
            counts = lock.relation.is_table and lock.mode >= LockMode.ROW_EXCLUSIVE
            if counts and (known is None or known[1] < lock.mode):
                strongest[key] = (lock.relation.name, lock.mode, statement, trace.held_until(statement))
    return sorted(strongest.values(), key=lambda row: (row[2].number, -row[1], row[0]))


def _screen(review: Review, reviewed: Reviewed) -> str:
    trace = reviewed.trace
    lines = [f"{trace.revision}: {verdict(reviewed).upper()}", f"  {relative(trace.revision.path)}"]
    rows = lock_table(trace)
    if rows:
        lines.append("  Locks on tables that existed before:")
        lines += [f"    {_lock(review, trace, row)}" for row in rows]
    if trace.statements:
        lines.append("  Statements:")
        lines += [f"    {each.number:>2}. line {each.line}: {_shortened(each.text, 88)}" for each in trace.statements]
    for finding in reviewed.findings:
        place = f"{relative(finding.path)}:{finding.line}" if finding.line else str(relative(finding.path))
        lines += [f"  {finding.severity}: {finding.rule.id}: {finding.message}", f"    at {place}"]
        lines += textwrap.wrap(finding.rule.effect, 96, initial_indent="    ", subsequent_indent="    ")
        if finding.rule.instead and finding.severity > Severity.NOTE:
            lines += ["    Instead:", textwrap.indent(finding.rule.instead, "      ")]
    lines += [f"  accepted: {each.rule.id}: {each.message} ({entry.reason})" for each, entry in reviewed.accepted]
    return "\n".join(lines)


def _lock(review: Review, trace: Trace, row: tuple[str, LockMode, Statement, Statement]) -> str:
    name, mode, first, last = row
    span = f"statement {first.number}" if first.number == last.number else f"statements {first.number} to {last.number}"
    size = None if review.sizes is None else review.sizes.get(name)
    told = "" if size is None else f"; {size.rows:,} rows, {bytes_text(size.bytes)}"
    seconds = estimated(trace, first, name, review.sizes)
    told += "" if seconds is None else f", about {seconds:,.1f} s"
    return f"{name}: {mode} ({span}), blocks {mode.blocks}{told}"


def _section(reviewed: Reviewed) -> str:
    if not reviewed.findings and not reviewed.accepted:
        return ""
    trace = reviewed.trace
    lines = ["", "", f"## `{trace.revision.id}` {trace.revision.title}", "", f"`{relative(trace.revision.path)}`", ""]
    if rows := lock_table(trace):
        lines += ["| table | lock | from statement | to statement |", "| --- | --- | --- | --- |"]
        lines += [f"| `{name}` | {mode} | {first.number} | {last.number} |" for name, mode, first, last in rows]
        lines.append("")
    for finding in reviewed.findings:
        line = f", line {finding.line}" if finding.line else ""
        lines += [f"- **{finding.severity}** `{finding.rule.id}`{line}: {finding.message}. {finding.rule.effect}"]
        if finding.rule.instead and finding.severity > Severity.NOTE:
            lines += ["", "  ```python", textwrap.indent(finding.rule.instead, "  "), "  ```", ""]
    lines += [f"- accepted `{each.rule.id}`: {each.message} ({entry.reason})" for each, entry in reviewed.accepted]
    lines += ["", "<details><summary>Statements</summary>", "", "```sql"]
    lines += [f"-- {each.number}, line {each.line}\n{_shortened(each.text, 400)};" for each in trace.statements]
    return "\n".join([*lines, "```", "", "</details>"])


def _revision(review: Review, reviewed: Reviewed) -> dict[str, Any]:
    trace, outcome = reviewed.trace, reviewed.outcome
    return {
        "revision": trace.revision.id,
        "title": trace.revision.title,
        "file": str(trace.revision.path),
        "verdict": verdict(reviewed),
        "seconds": round(trace.seconds, 4),
        "error": trace.error,
        "locks": [
            {
                "relation": name,
                "mode": str(mode),
                "blocks": mode.blocks,
                "from_statement": first.number,
                "to_statement": last.number,
                "estimated_seconds": estimated(trace, first, name, review.sizes),
            }
            for name, mode, first, last in lock_table(trace)
        ],
        "statements": [_statement(trace, each) for each in trace.statements],
        "findings": [_finding(finding) for finding in reviewed.findings],
        "accepted": [_finding(finding) | {"reason": entry.reason} for finding, entry in reviewed.accepted],
        "reversible": None
        if outcome is None
        else outcome.downgrade_error is None
        and outcome.second_error is None
        and not (outcome.differences or outcome.leftovers),
    }


def _statement(trace: Trace, each: Statement) -> dict[str, Any]:
    def name(oid: int) -> str:
        return trace.relations[oid].name

    return {
        "number": each.number,
        "text": each.text,
        "line": each.line,
        "transaction": each.transaction,
        "autocommit": each.alone,
        "seconds": round(each.seconds, 6),
        "rows": each.rows,
        "lock_timeout_ms": each.lock_timeout_ms,
        "statement_timeout_ms": each.statement_timeout_ms,
        "locks": [
            {"relation": lock.relation.name, "kind": lock.relation.kind, "mode": str(lock.mode)} for lock in each.locks
        ],
        "rewritten": [relation.name for relation in each.rewritten],
        "scanned": {name(oid): tuples for oid, tuples in each.scanned.items()},
        "written": {name(oid): counts.total for oid, counts in each.written.items()},
        "dropped": [relation.name for relation in each.dropped],
        "renamed": {old.name: new.name for old, new in each.renamed},
        "changed": [f"{change.key.kind} {change.key.identity}" for change in each.changes],
        "notices": list(each.notices),
        "sqlstate": each.sqlstate,
        "error": each.error,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.id,
        "name": finding.rule.name,
        "severity": str(finding.severity),
        "message": finding.message,
        "effect": finding.rule.effect,
        "instead": finding.rule.instead or None,
        "file": str(finding.path),
        "line": finding.line,
        "statement": finding.statement,
        "relation": finding.relation,
    }


def _instead(finding: Finding) -> str:
    return f"\nInstead:\n{finding.rule.instead}" if finding.rule.instead else ""


def _shortened(text: str, width: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= width else f"{words[: width - 3]}..."


def bytes_text(number: float) -> str:
    """A number of bytes in the largest unit that it fills."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while number >= 1024 and unit != "TiB":
        number, unit = number / 1024, next(units)
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def relative(path: Path) -> Path:
    """Below the current folder where it is; else as it stands."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
