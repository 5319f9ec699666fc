"""The whole review: a database at the parents, rows, a trace per revision, and what the rules say of it."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import sqlalchemy as sa

from schema.drift.cache import digest_of
from schema.drift.capture import capture, redirected
from schema.drift.history import history_parts
from schema.drift.workshop import Workshop, open_workshop, unknown_role
from schema.errors import ConfigError, DatabaseError, SchemaError, UsageError
from schema.migrate.project import Project, Revision
from schema.migrate.runner import offline, upgrade, version_table
from schema.pg.catalog import Snapshot
from schema.pg.connect import connect
from schema.pg.errors import translate
from schema.pg.target import Target
from schema.review.accept import Acceptance, read_acceptances
from schema.review.bench import PATIENCE_S, PLAIN, Bench, Desk
from schema.review.facts import Relation, Trace
from schema.review.finding import Context, Finding, Outcome, Rule, Size
from schema.review.observe import relations
from schema.review.outcome import Understudy, follow
from schema.review.rows import Unfilled, fill
from schema.review.rules import RULES, UNUSED_ACCEPTANCE
from schema.review.tracer import ended

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
    scratch_template: str | None = None
    """URL of a database that is copied, on its own server, in place of one that is made by the revisions."""
    pg_bindir: Path | None = None
    filler: Filler | None = None
    """Writes rows of the project's own kind, before those that are made for whatever is still empty."""
    sizes: Mapping[str, Size] | None = None
    roles: tuple[str, ...] = ()
    """Roles of production, made on a scratch server of ours where it lacks them."""
    rules: tuple[Rule, ...] = ()
    """None given means all."""
    offline: bool = False
    """Run each revision offline as well."""
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
        DatabaseError: the database to begin with cannot be copied.
    """
    result = Review(request.together, request.sizes)
    if not request.revisions:
        return result
    with ExitStack() as stack:
        workshop = stack.enter_context(
            open_workshop(
                live=None,
                live_target=None,
                scratch_url=request.scratch_template or request.scratch_url,
                pg_bindir=request.pg_bindir,
                ini=request.project.ini,
            )
        )
        result.server_version = workshop.server_version
        # Before the databases, and gone after them: what a role owns or may use keeps it.
        roles = stack.enter_context(ExitStack())
        if workshop.ours:
            roles.enter_context(workshop.roles(request.roles))
        first = request.revisions[0]

        def prepare(target: Target) -> None:
            _bring_to_parents(request.project, target, first)
            with connect(target, application_name="schemactl review", autocommit=True) as connection:
                _give_rows(request, connection, _named(_versions(request.project, target), relations(connection)))

        if request.scratch_template is not None:
            target = stack.enter_context(_copied(workshop))
            prepare(target)
        elif not _parents(request.project, first):
            target = stack.enter_context(workshop.database(prepare))
        else:
            digest = digest_of(workshop, history_parts(request.project, without=_from(request.project, first)))
            target = stack.enter_context(workshop.remembered(digest, prepare))
        desk = Desk(target)
        stack.callback(desk.close)
        understudy = Understudy(workshop, desk)
        stack.callback(understudy.forget)
        _Run(request, workshop, desk, result, understudy, roles).run()
        result.notes += workshop.notes
    return result


@contextmanager
def _copied(workshop: Workshop) -> Iterator[Target]:
    """A copy of the database that the workshop was opened with."""
    with ExitStack() as stack:
        try:
            target = stack.enter_context(workshop.clone(workshop.server))
        except DatabaseError as error:
            raise type(error)(
                f"{workshop.server.masked} cannot be copied: {error.message}",
                hint="Nobody may be connected to the database of --scratch-template, and the role needs CREATEDB and "
                "to own it, or it must be marked as a template.",
            ) from error
        yield target


def _parents(project: Project, revision: Revision) -> tuple[str, ...]:
    script = project.script.get_revision(revision.id)
    assert script is not None
    return tuple(script._all_down_revisions)  # noqa: SLF001 - parents and dependencies, labels resolved


def _bring_to_parents(project: Project, target: Target, revision: Revision) -> None:
    with redirected(lambda: target), ended():
        known = version_table(project, target).heads
        there = {each.revision for each in project.script.iterate_revisions(known or "base", "base")}
        if revision.id in there:
            raise UsageError(
                f"the database of --scratch-template is at {', '.join(known)}, which has {revision.id} already",
                hint="Review a later revision, or give a copy from before it was deployed.",
            )
        for parent in _parents(project, revision):
            if parent not in there:
                upgrade(project, target, parent, options=PLAIN)


class _RoleLackingError(Exception):
    """The server's message about a role that it does not have; nothing was changed."""


@dataclass
class _Run:
    request: Request
    workshop: Workshop
    desk: Desk
    result: Review
    understudy: Understudy
    roles: ExitStack
    traces: list[Trace] = field(default_factory=list)
    after: Snapshot | None = None
    """The catalogs that the last revision left."""
    existing: frozenset[int] | None = None
    versions: str | None = None
    ignored: frozenset[str] = frozenset()
    unfilled: dict[str, Unfilled] = field(default_factory=dict)
    naming: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> None:
        project = self.request.project
        self.naming = _naming(project, self.desk.target)
        for number, revision in enumerate(self.request.revisions):
            self.request.report(f"Reviewing {revision} ({number + 1} of {len(self.request.revisions)}) ...")
            if number and not self._at_parents(revision):
                self.understudy.forget()
                try:
                    _bring_to_parents(project, self.desk.target, revision)
                except SchemaError as error:
                    self.result.faults.append((revision, f"its parents cannot be run: {error.message}"))
                    continue
            self._look_around()
            self._prepare(self.desk.connection)
            self._review(revision, final=revision == self.request.revisions[-1])
        self.result.unfilled = list(self.unfilled.values())

    def _at_parents(self, revision: Revision) -> bool:
        """The database is where the last revision left it, and this one stands on that alone."""
        last = self.traces[-1] if self.traces else None
        below = _parents(self.request.project, revision)
        return last is not None and last.error is None and below == (last.revision.id,)

    def _look_around(self) -> None:
        if self.versions is None:
            self.desk.close()
            self.versions = _versions(self.request.project, self.desk.target)
        present = relations(self.desk.connection)
        self.ignored = _named(self.versions, present)
        if self.existing is None and self.request.together:
            self.existing = frozenset(present)

    def _prepare(self, connection: psycopg.Connection) -> None:
        self.unfilled = {each.table: each for each in _give_rows(self.request, connection, self.ignored)}

    def _review(self, revision: Revision, *, final: bool) -> None:
        request = self.request
        bench = Bench(request.project, self.desk, self.existing, self.ignored, request.patience_s)
        if request.reverse:
            # At the parents, as the first database is now.
            self.understudy.make()
        made: list[Trace] = []
        # What it yields, and what the call refers to, would stay in memory with the roles, to the end of the review.
        self.roles.enter_context(
            self.workshop.roles_for(lambda: made.append(self._trace(bench, revision)), lambda: None)
        )
        trace = made.pop()
        self.traces.append(trace)
        outcome = None
        if trace.error is not None:
            self.result.faults.append((revision, trace.error))
        if request.reverse and trace.error is None and trace.refused is None:
            outcome = follow(bench, self.understudy, trace, self._prepare)
        else:
            self.understudy.forget()
        context = Context(
            trace,
            final,
            request.sizes,
            tuple(self.traces),
            outcome,
            request.together,
            self.naming,
            _offline(request.project, self.desk.target, revision) if request.offline else None,
        )
        findings = [finding for rule in request.rules or RULES for finding in rule.findings(context)]
        self.after = trace.after
        self.traces[-1] = trace.slim(first=len(self.traces) == 1)
        self.result.reviewed.append(
            _sorted_out(self.traces[-1], outcome, findings, alone=len(self.traces) == 1 or not request.together)
        )

    def _trace(self, bench: Bench, revision: Revision) -> Trace:
        trace = bench.trace(revision, self.after if self._at_parents(revision) else None)
        last = trace.statements[-1] if trace.error is not None and trace.statements else None
        if last is not None and last.error and not any(each.changes for each in trace.statements):
            lacking = _RoleLackingError(last.error)
            if self.workshop.ours and unknown_role(lacking) is not None:
                raise lacking
        return trace


def _from(project: Project, first: Revision) -> set[Path]:
    """Files of the revisions that a database at the parents of one knows nothing of."""
    below = {each.revision for each in project.script.iterate_revisions(_parents(project, first) or "base", "base")}
    return {Path(each.path) for each in project.script.walk_revisions() if each.revision not in below}


def _naming(project: Project, target: Target) -> dict[str, str]:
    """The naming convention of the project's metadata; empty when it has only what SQLAlchemy gives every one."""
    try:
        with ended():
            configurations = capture(project, lambda: target)
    except ConfigError:
        # An environment that cannot run offline, or has no metadata.
        return {}
    default = sa.MetaData().naming_convention
    named = [each.naming_convention for one in configurations for each in one.metadata]
    given = {key: text for each in named if each != default for key, text in each.items()}
    return {key: text for key, text in given.items() if isinstance(key, str) and isinstance(text, str)}


def _offline(project: Project, target: Target, revision: Revision) -> str | None:
    try:
        with redirected(lambda: target), ended(), redirect_stdout(sys.stderr):
            offline(project, target, revision)
    except SchemaError as error:
        return error.message
    return None


def _versions(project: Project, target: Target) -> str:
    """Name of Alembic's own table."""
    with redirected(lambda: target), ended():
        return version_table(project, target).name


def _named(versions: str, present: Mapping[int, Relation]) -> frozenset[str]:
    found = {each.name for each in present.values() if each.is_table and each.name.partition(".")[2] == versions}
    return frozenset(found or {f"public.{versions}"})


def _give_rows(request: Request, connection: psycopg.Connection, ignored: frozenset[str]) -> list[Unfilled]:
    """Rows for every table that has none, and their numbers known, as an analysed database has them."""
    if request.filler is not None:
        request.filler(connection)
    try:
        unfilled = fill(connection, ignored=ignored)
        _analyze(connection)
    except psycopg.Error as error:
        raise translate(error) or error from error
    return unfilled


def _analyze(connection: psycopg.Connection) -> None:
    """Count the rows of tables that nobody has counted; of the others, what there is is good enough."""
    uncounted = "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'm') AND reltuples < 0"
    names = [row[0] for row in connection.execute(uncounted)]
    if names:
        connection.execute(f"ANALYZE {', '.join(names)}".encode())


def _sorted_out(trace: Trace, outcome: Outcome | None, findings: Sequence[Finding], *, alone: bool) -> Reviewed:
    """What is accepted, and what is not; behind others of its set a revision may be found fault with for less."""
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
        if entry not in used and (alone or not entry.reason):
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
