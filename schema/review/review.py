"""The whole review: a database at the parents, rows, a trace per revision, and what the rules say of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from schema.drift.capture import redirected
from schema.drift.workshop import Workshop, open_workshop, unknown_role
from schema.errors import SchemaError
from schema.migrate.project import Project, Revision
from schema.migrate.runner import upgrade, version_table
from schema.pg.connect import connect
from schema.pg.errors import translate
from schema.pg.target import Target
from schema.review.accept import Acceptance, read_acceptances
from schema.review.facts import Trace
from schema.review.finding import Context, Finding, Outcome, Rule, Size
from schema.review.observe import relations
from schema.review.outcome import follow
from schema.review.rows import Unfilled, fill
from schema.review.rules import RULES, UNUSED_ACCEPTANCE
from schema.review.tracer import PATIENCE_S, PLAIN, Bench, ended

Filler = Callable[[psycopg.Connection], None]


@dataclass(frozen=True)
class Request:
    """What to review."""

    project: Project
    revisions: tuple[Revision, ...]
    """Parents before children."""
    together: bool
    """They are deployed as one set: what one of them creates is nothing old for the next."""
    scratch_url: str | None = None
    pg_bindir: Path | None = None
    filler: Filler | None = None
    """Writes rows of the project's own kind, before those that are made for whatever is still empty."""
    sizes: Mapping[str, Size] | None = None
    rules: tuple[Rule, ...] = ()
    """None given means all."""
    reverse: bool = True
    """Take each revision down and up again."""
    patience_s: float = PATIENCE_S
    report: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class Reviewed:
    """One revision and what is to be said of it."""

    trace: Trace
    outcome: Outcome | None
    findings: tuple[Finding, ...]
    accepted: tuple[tuple[Finding, Acceptance], ...]


@dataclass
class Review:
    """Everything that was found."""

    together: bool
    sizes: Mapping[str, Size] | None
    server_version: int = 0
    reviewed: list[Reviewed] = field(default_factory=list)
    faults: list[tuple[Revision, str]] = field(default_factory=list)
    """Revisions that could not be reviewed, and why."""
    unfilled: list[Unfilled] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """All that is not accepted, the worst first within each revision."""
        return [finding for each in self.reviewed for finding in each.findings]


def review(request: Request) -> Review:
    """Run the revisions one after the other on a scratch server and return what they do.

    Raises:
        ServerError: no scratch server is to be had.
        RevisionError: the history below the revisions cannot be replayed.
    """
    result = Review(request.together, request.sizes)
    if not request.revisions:
        return result
    ini = request.project.ini
    with open_workshop(
        live=None, live_target=None, scratch_url=request.scratch_url, pg_bindir=request.pg_bindir, ini=ini
    ) as workshop:
        result.server_version = workshop.server_version
        first = request.revisions[0]

        def prepare(target: Target) -> None:
            _bring_to_parents(request.project, target, first)

        with workshop.database(prepare) as target:
            _Run(request, workshop, target, result).run()
        result.notes += workshop.notes
    return result


def _bring_to_parents(project: Project, target: Target, revision: Revision) -> None:
    script = project.script.get_revision(revision.id)
    assert script is not None
    with redirected(lambda: target), ended():
        for parent in script._all_down_revisions:  # noqa: SLF001 - parents and dependencies, labels resolved
            upgrade(project, target, parent, options=PLAIN)


class _RoleLackingError(Exception):
    """The server's message about a role that it does not have; nothing was changed."""


@dataclass
class _Run:
    request: Request
    workshop: Workshop
    target: Target
    result: Review
    traces: list[Trace] = field(default_factory=list)
    existing: frozenset[int] | None = None
    ignored: frozenset[str] = frozenset()
    unfilled: dict[str, Unfilled] = field(default_factory=dict)

    def run(self) -> None:
        project = self.request.project
        with redirected(lambda: self.target), ended():
            versions = version_table(project, self.target).name
        for number, revision in enumerate(self.request.revisions):
            self.request.report(f"Reviewing {revision} ({number + 1} of {len(self.request.revisions)}) ...")
            if number:
                try:
                    _bring_to_parents(project, self.target, revision)
                except SchemaError as error:
                    self.result.faults.append((revision, f"its parents cannot be run: {error.message}"))
                    continue
            self._prepare(versions)
            self._review(revision, final=revision == self.request.revisions[-1])
        self.result.unfilled = list(self.unfilled.values())

    def _prepare(self, versions: str) -> None:
        with connect(self.target, application_name="schemactl review", autocommit=True) as connection:
            present = relations(connection)
            self.ignored = frozenset(
                each.name for each in present.values() if each.is_table and each.name.partition(".")[2] == versions
            ) or frozenset({f"public.{versions}"})
            if self.existing is None and self.request.together:
                self.existing = frozenset(present)
            if self.request.filler is not None:
                self.request.filler(connection)
            try:
                self.unfilled = {each.table: each for each in fill(connection, ignored=self.ignored)}
                # Locks of autovacuum would be seen as waits, and statistics make the row counts known.
                connection.execute("ANALYZE")
            except psycopg.Error as error:
                raise translate(error) or error from error

    def _review(self, revision: Revision, *, final: bool) -> None:
        request = self.request
        bench = Bench(request.project, self.target, self.existing, self.ignored, request.patience_s)
        with self.workshop.roles_for(lambda: self._trace(bench, revision), lambda: None) as trace:
            pass
        self.traces.append(trace)
        outcome = None
        if trace.error is not None:
            self.result.faults.append((revision, trace.error))
        elif request.reverse and trace.refused is None:
            outcome = follow(bench, self.workshop, trace)
        context = Context(trace, final, request.sizes, tuple(self.traces), outcome, request.together)
        findings = [finding for rule in request.rules or RULES for finding in rule.findings(context)]
        self.result.reviewed.append(_sorted_out(trace, outcome, findings))

    def _trace(self, bench: Bench, revision: Revision) -> Trace:
        trace = bench.trace(revision)
        last = trace.statements[-1] if trace.error is not None and trace.statements else None
        if last is not None and last.error and not any(each.changes for each in trace.statements):
            lacking = _RoleLackingError(last.error)
            if self.workshop.ours and unknown_role(lacking) is not None:
                raise lacking
        return trace


def _sorted_out(trace: Trace, outcome: Outcome | None, findings: Sequence[Finding]) -> Reviewed:
    acceptances = read_acceptances(trace.revision.path)
    open_: list[Finding] = []
    accepted: list[tuple[Finding, Acceptance]] = []
    for finding in findings:
        entry = next((each for each in acceptances if each.reason and each.covers(finding)), None)
        if entry is None:
            open_.append(finding)
        else:
            accepted.append((finding, entry))
    used = {entry for _, entry in accepted}
    for entry in acceptances:
        if entry not in used:
            why = "no such finding" if entry.reason else "no reason is given: write `-- reason` behind the rule"
            open_.append(
                Finding(
                    UNUSED_ACCEPTANCE,
                    f"accept {entry.rule}: {why}",
                    UNUSED_ACCEPTANCE.severity,
                    trace.revision.id,
                    trace.revision.path,
                    entry.line,
                )
            )
    open_.sort(key=lambda each: (-each.severity, each.statement or 0, each.rule.id, each.message))
    return Reviewed(trace, outcome, tuple(open_), tuple(accepted))
