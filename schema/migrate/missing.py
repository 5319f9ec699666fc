"""Revisions that came in below a database's stamp and never ran there: found before an upgrade, and run late."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from schema.errors import ExitCode, RevisionError, SchemaError
from schema.lineage.findings import Finding
from schema.lineage.git import Repository, Snapshot, released
from schema.lineage.graph import Graph, load
from schema.lineage.integrity import Ledger, expected, verify
from schema.lineage.layout import Layout
from schema.lineage.skipped import Skipped, View, skipped_by_database

_NOTE = re.compile(r"^run late by schemactl: (.*)$", re.MULTILINE)


class SkippedRevisionsError(RevisionError):
    """An upgrade would leave out revisions for ever."""

    exit_code = ExitCode.FINDINGS


@dataclass(frozen=True)
class Sources:
    """What tells which history a database came by: a dump, or refs, or else every tag."""

    dump: View | None = None
    refs: tuple[str, ...] = ()


def layout_of(script: ScriptDirectory, config: Path) -> Layout:
    """Where a history that Alembic has opened has its files: whichever section, option or program said so."""
    folders = script._version_locations  # noqa: SLF001
    return Layout(
        config, Path(script.dir), tuple(Path(folder) for folder in folders), script.recursive_version_locations
    )


def skipped_in(layout: Layout, stamped: Sequence[str], ran: Sequence[str], sources: Sources) -> list[Skipped]:
    """What the files hold below a database's stamp and it never ran, once for each history that had its stamp.

    `ran` are revisions that ran late. Without git and without a dump nothing is known, and nothing is said.

    Raises:
        UsageError: a ref is not there.
    """
    if not stamped:
        return []
    graph = load(layout)
    repository = Repository.around(layout)
    if sources.dump is not None:
        views = [sources.dump]
    else:
        views = [View(found.ref, found.graph) for found in _released(repository, sources.refs)]
        if repository is not None and not any(set(stamped) <= view.graph.revisions.keys() for view in views):
            views = _commits(repository, graph, stamped)
    found = skipped_by_database(graph, "the database", stamped, views)
    late = set(ran)
    return [
        Skipped(
            answer.subject,
            answer.stamped,
            answer.then,
            tuple(revision for revision in answer.revisions if revision.id not in late),
            answer.covered,
        )
        for answer in found
    ]


def refuse_skipped(found: Sequence[Skipped]) -> None:
    """Make sure that an upgrade leaves nothing out.

    Raises:
        SkippedRevisionsError: it would.
    """
    bad = [answer for answer in found if answer.revisions]
    if bad:
        raise SkippedRevisionsError(
            f"the database, at {', '.join(bad[0].stamped)}, would skip revisions for ever: {_ways(bad)}",
            hint="`schemactl upgrade --missing` runs them first; `schemactl upgrade --yes`, or `alembic -x yes`, "
            "goes on without them.",
        )


def missing_in(found: Sequence[Skipped]) -> list[str]:
    """The ids of what never ran, in the order to run it.

    Raises:
        SkippedRevisionsError: the histories that had the stamp differ in what it is.
    """
    answers = {tuple(revision.id for revision in answer.revisions): answer for answer in found}
    if len(answers) > 1:
        raise SkippedRevisionsError(
            f"it is not known which revisions the database lacks: {_ways(list(answers.values()))}",
            hint="Name the release that it came by: --released-ref REF, or --against DUMP.",
        )
    return [id_ for ids in answers for id_ in ids]


def edited_releases(layout: Layout) -> tuple[Finding, ...]:
    """Released revisions that were edited since; nothing without git and without a ledger."""
    entries = expected(Ledger.read(layout.ledger), _released(Repository.around(layout), ()))
    return tuple(verify(load(layout), entries))


def ran_late(migration: MigrationContext) -> list[str]:
    """The revisions that the version table's comment says ran late."""
    comment = _comment(migration)
    found = _NOTE.search(comment)
    return found[1].split() if found else []


def note_late(migration: MigrationContext, revision: str) -> None:
    """Note in the version table's comment, in the present transaction, that a revision ran late.

    Nothing else can say so: the table itself holds the newest revisions only.
    """
    comment = _comment(migration)
    note = f"run late by schemactl: {' '.join([*ran_late(migration), revision])}"
    comment = _NOTE.sub(note, comment) if _NOTE.search(comment) else f"{comment}\n{note}".strip()
    assert migration.connection is not None
    table = sa.Table(migration.version_table, sa.MetaData(), schema=migration.version_table_schema, comment=comment)
    migration.connection.execute(sa.schema.SetTableComment(table))


def _comment(migration: MigrationContext) -> str:
    assert migration.connection is not None
    quote = migration.dialect.identifier_preparer.quote_identifier
    parts = (migration.version_table_schema, migration.version_table)
    query = sa.text("SELECT obj_description(to_regclass(:name), 'pg_class')")
    return str(migration.connection.scalar(query, {"name": ".".join(quote(part) for part in parts if part)}) or "")


def _released(repository: Repository | None, refs: Sequence[str]) -> list[Snapshot]:
    try:
        return released(repository, refs)
    except SchemaError:
        if refs:
            raise
        # git that refuses, over the owner of a folder for example, is no reason not to upgrade.
        return []


def _commits(repository: Repository, graph: Graph, stamped: Sequence[str]) -> list[View]:
    """The commits of this branch at which what is below the stamps changed."""
    try:
        born = [graph.revisions[id_].path for id_ in stamped if id_ in graph.revisions]
        below = [graph.revisions[id_].path for id_ in graph.ancestors(stamped)]
        return [
            View(f"commit {commit}", repository.snapshot(commit).graph)
            for commit in repository.commits_since(born, below)
        ]
    except SchemaError:
        return []


def _ways(answers: Sequence[Skipped]) -> str:
    return "; ".join(
        f"if it got there with {answer.then}, "
        + (f"{', '.join(revision.id for revision in answer.revisions)} never ran" if answer.revisions else "all ran")
        for answer in answers
    )
