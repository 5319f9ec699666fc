"""Findings of one revision by rule, so that what a rule says is said once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from schema.review.finding import Finding, Rule


@dataclass(frozen=True)
class Item:
    """A finding."""

    finding: Finding
    reason: str
    """Why it is accepted; empty when it is not."""
    tables: list[str]
    """What it is about; the tables of its statement, or of the revision, where it names none."""


@dataclass(frozen=True)
class Group:
    """Findings of one rule and one severity."""

    rule: Rule
    severity: str
    """`accepted` for those that are."""
    items: list[Item] = field(default_factory=list)


def grouped(findings: Iterable[tuple[Finding, str]], tables_of: Callable[[Finding], list[str]]) -> list[Group]:
    """Findings, each with the reason it is accepted for, in groups; in the order of the first of each."""
    groups: dict[tuple[str, str], Group] = {}
    for finding, reason in findings:
        severity = "accepted" if reason else str(finding.severity)
        group = groups.setdefault((finding.rule.id, severity), Group(finding.rule, severity))
        group.items.append(Item(finding, reason, tables_of(finding)))
    return list(groups.values())
