"""The dry run of a deployment: the same merge, validation, lookups and writes as the real one, and then a rollback."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from schema.spec.definition import ServiceDefinition
from schema.spec.draft import RevisionDraft, RevisionSpec, RuntimeVariant
from schema.spec.generator import GENERATORS, InvalidRevisionError
from schema.spec.merge import Entry, Layer, Path, Precedence
from schema.spec.problems import Problem
from schema.spec.session import session_of
from schema.write.enqueue import enqueue
from schema.write.resolve import resolve, revision_references
from schema.write.rows import SessionRows, session_rows

UNCHECKED = (
    "whether there is exactly one image of that name and architecture",
    "whether the resource slots exist",
    "whether the database takes the rows",
)
"""What only a database can tell."""


@dataclass(frozen=True)
class Preview:
    """What a deployment request would become."""

    merged: Layer
    """Every value given, as it stands in its document, and where it came from."""
    problems: tuple[Problem, ...]
    spec: RevisionSpec | None
    """None when a value is not valid."""
    rows: SessionRows | None
    """What enqueueing a session of it writes; None when there are problems."""
    unchecked: tuple[str, ...]
    """What could not be checked for want of a database."""


def preview(
    request: RevisionDraft | Mapping[str, object],
    definition: ServiceDefinition | None,
    variant: RuntimeVariant,
    precedence: Precedence,
    connection: Connection | None,
) -> Preview:
    """Find out what a request would become.

    With a connection, which must not be in a transaction: names are looked up and, when nothing is wrong, a session is
    enqueued as for real in a transaction that is then rolled back.
    """
    found = _generated(request, definition, variant, precedence)
    if connection is None:
        return replace(found, unchecked=UNCHECKED)
    faulty = {(problem.field,) for problem in found.problems}
    usable = {path: entry for path, entry in found.merged.items() if path not in faulty}
    with connection.begin() as transaction:
        _, unknown = resolve(connection, revision_references(usable))
        found = replace(found, problems=(*found.problems, *unknown))
        rows = None
        if found.spec is not None and not found.problems:
            rows = enqueue(connection, session_of(found.spec)).rows
        transaction.rollback()
    return replace(found, rows=rows)


def _generated(
    request: RevisionDraft | Mapping[str, object],
    definition: ServiceDefinition | None,
    variant: RuntimeVariant,
    precedence: Precedence,
) -> Preview:
    try:
        generated = GENERATORS[variant].generate(request, definition, precedence)
    except InvalidRevisionError as error:
        return Preview(error.merged, error.problems, None, None, ())
    values: dict[Path, Entry] = {path: Entry(_final(generated.spec, path), s) for path, s in generated.sources.items()}
    return Preview(values, (), generated.spec, session_rows(session_of(generated.spec), {}), ())


def _final(spec: RevisionSpec, path: Path) -> object:
    if path[0] == "resource_opts":
        return getattr(spec, path[1])
    value = getattr(spec, path[0])
    return value[path[1]] if len(path) > 1 else value
