"""Looks at a job's tables without writing: what a run would do, and whether what runs did is right."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from psycopg import Connection

from schema.backfill import keyset
from schema.backfill.job import Finding, Job, Row

RANGE_SIZE = 2000
"""Parent rows looked at per statement."""

SHOWN_MAX = 1000
"""Findings kept per check; all are counted."""


@dataclass
class Survey:
    """Counts by name, and the first findings of each check."""

    counts: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    """Findings per check, kept or not."""
    failed: int = 0
    """Findings that fail a verification."""
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it while there are few of its check."""
        self.checks[finding.check] += 1
        self.failed += finding.fails
        if self.checks[finding.check] <= SHOWN_MAX:
            self.findings.append(finding)


def plan(connection: Connection[Row], job: Job, *, advance: Callable[[int], None] = lambda _: None) -> Survey:
    """Count what a run would write, and find what an operator should look at before."""
    survey = Survey()
    for keys in keyset.walk(connection, job.parent, RANGE_SIZE):
        with connection.transaction():
            _read_only(connection)
            preview = job.preview(connection, keys)
        survey.counts.update({job.parent.table: len(keys), **preview.counts})
        for finding in preview.findings:
            survey.add(finding)
        advance(len(keys))
    return survey


def verify(connection: Connection[Row], job: Job, *, advance: Callable[[int], None] = lambda _: None) -> Survey:
    """Hold every parent row's outcome against the rules. Each range is one statement, so one snapshot."""
    survey = Survey()
    for keys in keyset.walk(connection, job.parent, RANGE_SIZE):
        with connection.transaction():
            _read_only(connection)
            findings = job.verify(connection, keys)
        survey.counts[job.parent.table] += len(keys)
        for finding in findings:
            survey.add(finding)
        advance(len(keys))
    return survey


def _read_only(connection: Connection[Row]) -> None:
    connection.execute(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY; SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off"
    )
