"""Rules and findings as data."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from schema.pg.catalog import Snapshot
from schema.review.facts import Relation, Statement, Trace


class Severity(IntEnum):
    """How bad a finding is."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Size:
    """How large a table is in production."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Finding:
    """One thing that a DBA must know, at one place."""

    rule: "Rule"
    message: str
    severity: Severity
    revision: str
    path: Path
    line: int | None = None
    statement: int | None = None
    """Number of the statement within the revision."""
    relation: str | None = None


@dataclass(frozen=True)
class Example:
    """Code of a revision that a rule finds fault with, or does not."""

    upgrade: str
    """Body of `upgrade()`."""
    setup: str = ""
    """SQL of the database before it; `app` and `parent` with a column `id`, and rows, are always there."""
    downgrade: str = "pass"
    arms: tuple[str, ...] = ()
    """Bodies of revisions that stand side by side on the first one; `upgrade` is then the one that merges them."""


@dataclass(frozen=True)
class Context:
    """What a rule looks at: one revision of a set, and what is known of production."""

    trace: Trace
    final: bool
    """It is the last revision of the set."""
    sizes: Mapping[str, Size] | None
    traces: tuple[Trace, ...] = ()
    """The set up to and with this one."""
    outcome: "Outcome | None" = None
    together: bool = True
    """The set is deployed as one; else each revision for itself."""
    naming: Mapping[str, str] = field(default_factory=dict)
    """The project's naming convention: templates by `ix`, `uq`, `ck`, `fk` and `pk`; empty when it has none."""
    offline: str | None = None
    """Why the revision cannot be run offline, if it was tried and failed."""

    @property
    def baseline(self) -> Snapshot:
        """The catalogs before the deployment that the revision is part of."""
        return self.traces[0].before if self.together and self.traces else self.trace.before

    def size_of(self, name: str | None) -> Size | None:
        """Size of a table in production, if it is known."""
        return None if self.sizes is None or name is None else self.sizes.get(name)

    def weighed(self, severity: Severity, name: str | None) -> Severity:
        """The severity of something whose cost grows with a table: less for small ones, when the size is known.

        A table that production does not have, or that was never analysed, keeps the severity.
        """
        size = self.size_of(name)
        if size is None:
            return severity
        if size.bytes < SMALL_BYTES and size.rows < SMALL_ROWS:
            return Severity.NOTE
        if size.bytes < LARGE_BYTES:
            return min(severity, Severity.WARNING)
        return severity

    def table_of(self, relation: Relation) -> Relation:
        """The table of an index, or the table itself."""
        if relation.table is None:
            return relation
        return self.trace.relations.get(relation.table, relation)


SMALL_ROWS, SMALL_BYTES, LARGE_BYTES = 10_000, 8 * 1024**2, 1024**3
"""Below the first two, whatever reads a table is done in an instant; above the third, it takes seconds or more."""


@dataclass(frozen=True)
class Outcome:
    """What became of the revision beyond its upgrade."""

    downgrade_error: str | None = None
    refuses: bool = False
    """The downgrade raises by itself, with its reason."""
    second_error: str | None = None
    """Why the upgrade failed when run again after the downgrade."""
    differences: tuple[str, ...] = ()
    """What the catalog differs in after upgrade, downgrade, upgrade."""
    leftovers: tuple[str, ...] = ()
    """What the catalog differs in after upgrade, downgrade."""
    lost: tuple[tuple[str, int], ...] = ()
    """Columns that the downgrade drops, and how many values of them the scratch database had."""
    invalid_kept: tuple[str, ...] = ()
    """Indexes that stay INVALID when the revision is run over an INVALID leftover of them, and ends well."""
    rerun: tuple[tuple[int, str], ...] = ()
    """Statements after whose failure the upgrade cannot be run again, and why."""


@dataclass(frozen=True)
class Found:
    """What a rule's function yields; the rule adds its own severity unless one is given."""

    message: str
    statement: Statement | None = None
    relation: str | None = None
    severity: Severity | None = None
    sized: bool = True
    """Whether the severity depends on the size of the relation."""
    line: int | None = None
    """Of the revision file, where no statement is to blame."""


@dataclass(frozen=True)
class Rule:
    """One rule."""

    id: str
    name: str
    condition: str
    effect: str
    instead: str
    """What to do instead, as the body of a revision's upgrade; empty when there is nothing better."""
    severity: Severity
    find: Callable[[Context], Iterable[Found]] = field(repr=False)
    bad: Example = field(repr=False)
    good: Example = field(repr=False)

    def findings(self, context: Context) -> Iterator[Finding]:
        """What the rule has to say about a revision."""
        trace = context.trace
        for found in self.find(context):
            severity = found.severity or self.severity
            yield Finding(
                self,
                found.message,
                context.weighed(severity, found.relation) if found.sized else severity,
                trace.revision.id,
                trace.revision.path,
                found.statement.line if found.statement else found.line,
                found.statement.number if found.statement else None,
                found.relation,
            )
