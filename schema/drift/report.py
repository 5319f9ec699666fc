"""An examination as data, as text, as Markdown, and as annotations for GitHub."""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from schema.drift.accept import Acceptance
from schema.drift.examine import Examination
from schema.drift.repair import Repair, repair
from schema.drift.verdict import Finding, Side

_WIDTH = 52
"""Width of each of the two texts that stand side by side."""


def as_data(examination: Examination) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "sides": [str(side) for side in examination.sides],
        "drift": [_row(finding) for finding in examination.findings],
        "equivalent": [_row(finding) | {"reason": finding.difference.equivalent} for finding in examination.equivalent],
        "accepted": [_row(finding) | {"reason": entry.reason} for finding, entry in examination.accepted],
        "stale_acceptances": [_entry(entry) | {"problem": why} for entry, why in examination.stale],
        "faults": [
            {"type": type(fault).__name__, "message": fault.message, "hint": fault.hint} for fault in examination.faults
        ],
        "notes": examination.notes,
    }


def as_text(examination: Examination, *, verbose: bool = False) -> str:
    """A table per verdict, both texts side by side, each with its repair."""
    parts = [f"Fault: {fault.message}. {fault.hint}".rstrip() for fault in examination.faults]
    parts += [f"Note: {note}" for note in examination.notes]
    for verdict, findings in groupby(examination.findings, key=lambda each: each.verdict):
        parts.append(f"{verdict} - {verdict.meaning}")
        parts += [_told(finding) for finding in findings]
    parts += [
        f'Accepted entry "{entry.pattern}" {why}: remove it from pyproject.toml.' for entry, why in examination.stale
    ]
    if verbose:
        parts += [
            f"Equivalent: {each.difference.title}: {each.difference.equivalent}" for each in examination.equivalent
        ]
        parts += [f"Accepted: {each.difference.title}: {entry.reason}" for each, entry in examination.accepted]
    return "\n\n".join([*parts, _total(examination)])


def as_markdown(examination: Examination) -> str:
    """A table per verdict."""
    lines = ["# Drift", "", _total(examination), ""]
    lines += [f"> **Fault:** {fault.message}. {fault.hint}\n" for fault in examination.faults]
    lines += [f"> {note}\n" for note in examination.notes]
    for verdict, findings in groupby(examination.findings, key=lambda each: each.verdict):
        lines += [f"## {verdict}", "", f"{verdict.meaning[0].upper()}{verdict.meaning[1:]}.", ""]
        lines += [
            "| object | what | wanted | found | last touched by | repair |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        lines += [_markdown_row(finding) for finding in findings]
        lines.append("")
    lines += [f"- Accepted entry `{entry.pattern}` {why}." for entry, why in examination.stale]
    return "\n".join(lines).rstrip()


def as_github(examination: Examination) -> str:
    """One annotation per finding."""
    lines = [
        f"::error title={_property(f'{each.verdict}: {each.difference.title}')}::{_message(_told(each))}"
        for each in examination.findings
    ]
    lines += [
        f"::error title=Accepted drift::{_message(f'Entry {entry.pattern!r} {why}.')}"
        for entry, why in examination.stale
    ]
    lines += [f"::warning title=Drift::{_message(fault.message)}" for fault in examination.faults]
    return "\n".join([*lines, *(f"::notice title=Drift::{_message(note)}" for note in examination.notes)])


def advice(finding: Finding) -> tuple[str, Repair]:
    """Where the repair belongs, and what it is."""
    suggested = repair(finding.difference)
    object_name = f"{finding.difference.kind} {finding.difference.identity}"
    if finding.pair == (Side.MODELS, Side.HISTORY):
        where = "Write a revision that runs this, or correct the models"
        lacking = f"Write a revision that makes {object_name} as the models have it, or correct the models"
    else:
        where = f"Run this on the live database, or bring the change into the {finding.pair[0]}"
        lacking = f"Make {object_name} on the live database as the {finding.pair[0]} has it, or bring the change there"
    if suggested.loses_data:
        where += " (it loses data, or rewrites it)"
    return (where if suggested.statements else lacking), suggested


def _told(finding: Finding) -> str:
    difference = finding.difference
    by = f"  (last touched by {finding.revision})" if finding.revision else ""
    wanted, found = str(finding.pair[0]), str(finding.pair[1])
    lines = [f"  {difference.title}{by}"]
    lines += [f"    {line}" for line in _side_by_side(wanted, difference.wanted, found, difference.found)]
    where, suggested = advice(finding)
    lines.append(f"    {where}" + (":" if suggested.statements else "."))
    lines += [textwrap.indent(f"{statement};", " " * 6) for statement in suggested.statements]
    return "\n".join(lines)


def _side_by_side(left: str, one: str | None, right: str, other: str | None) -> Iterator[str]:
    columns = [[left, *_wrapped(one)], [right, *_wrapped(other)]]
    height = max(map(len, columns))
    for first, second in zip(*([*column, *[""] * (height - len(column))] for column in columns), strict=True):
        yield f"{first:<{_WIDTH}} | {second}".rstrip()


def _wrapped(text: str | None) -> list[str]:
    if text is None:
        return ["-"]
    return [
        part
        for line in text.strip("\n").split("\n")
        for part in (textwrap.wrap(line, _WIDTH, subsequent_indent="  ", drop_whitespace=False) or [""])
    ]


def _total(examination: Examination) -> str:
    compared = " and ".join([", ".join(map(str, examination.sides[:-1])), str(examination.sides[-1])])
    count = len(examination.findings)
    found = "No drift" if not count else f"{count} difference{'s' if count > 1 else ''}"
    rest = [
        f"{number} {word}"
        for number, word in (
            (len(examination.equivalent), "equivalent (-v lists them)"),
            (len(examination.accepted), "accepted"),
            (len(examination.stale), "accepted entries to remove"),
        )
        if number
    ]
    return f"{found} between {compared}" + (f"; {', '.join(rest)}" if rest else "") + "."


def _row(finding: Finding) -> dict[str, Any]:
    difference = finding.difference
    where, suggested = advice(finding)
    return {
        "verdict": str(finding.verdict),
        "between": [str(side) for side in finding.pair],
        "kind": str(difference.kind),
        "object": difference.identity,
        "change": str(difference.change),
        "attribute": difference.attribute,
        "wanted": difference.wanted,
        "found": difference.found,
        "revision": finding.revision,
        "advice": where,
        "repair": list(suggested.statements),
        "loses_data": suggested.loses_data,
    }


def _entry(entry: Acceptance) -> dict[str, Any]:
    return {"object": entry.pattern, "reason": entry.reason, "expires": str(entry.expires) if entry.expires else None}


def _markdown_row(finding: Finding) -> str:
    difference = finding.difference
    where, suggested = advice(finding)
    cells: Iterable[str] = (
        f"{difference.kind} `{difference.identity}`",
        difference.attribute or str(difference.change),
        _code(difference.wanted),
        _code(difference.found),
        f"`{finding.revision}`" if finding.revision else "",
        _code(";\n".join(suggested.statements)) if suggested.statements else where,
    )
    return "| " + " | ".join(cells) + " |"


def _code(text: str | None) -> str:
    if text is None:
        return "-"
    lines = (line.replace("|", "\\|").replace("`", "'") for line in text.strip("\n").split("\n"))
    return "<br>".join(f"`{line}`" for line in lines)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
