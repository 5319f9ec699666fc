"""What several rules ask of a trace."""

from collections.abc import Iterator
from typing import TypeVar

from schema.pg.catalog import CatalogObject
from schema.pg.catalog.columns import Column
from schema.review.facts import Lock, LockMode, Relation, Statement
from schema.review.finding import Context

T = TypeVar("T", bound=CatalogObject)


def added(statement: Statement, kind: type[T]) -> Iterator[T]:
    """Objects of a kind that the statement made."""
    for change in statement.changes:
        if change.before is None and isinstance(change.after, kind):
            yield change.after


def removed(statement: Statement, kind: type[T]) -> Iterator[T]:
    """Objects of a kind that are gone after the statement, or have another name."""
    for change in statement.changes:
        if change.after is None and isinstance(change.before, kind):
            yield change.before


def changed(statement: Statement, kind: type[T]) -> Iterator[tuple[T, T]]:
    """Objects of a kind that the statement changed: before and after."""
    for change in statement.changes:
        if isinstance(change.before, kind) and isinstance(change.after, kind):
            yield change.before, change.after


def strongest(statement: Statement, relation: Relation) -> LockMode | None:
    """The strongest lock on a relation that the statement took or that was held."""
    modes = [each.mode for each in (*statement.locks, *statement.held) if each.relation.oid == relation.oid]
    return max(modes, default=None)


def dangerous(statement: Statement) -> list[Lock]:
    """Locks that block applications and that the statement took on tables: the strongest one of each."""
    found: dict[int, Lock] = {}
    for lock in statement.locks:
        if lock.relation.is_table and lock.mode.dangerous and lock.relation.oid not in found:
            found[lock.relation.oid] = lock
    return list(found.values())


def existing(context: Context, name: str, statement: Statement) -> Relation | None:
    """The table of that name as it was before the statement, if it existed before the set under review."""
    for relation in statement.relations.values():
        if relation.name == name and relation.oid in context.trace.existing:
            return relation
    return None


def index_built(context: Context, statement: Statement, name: str) -> Relation | None:
    """The table whose index of that name the statement built under a lock that blocks writes, if it existed before."""
    index = next((each for each in statement.created if each.name == name and each.is_index), None)
    if index is None or index.table is None or index.table not in context.trace.existing:
        return None
    table = statement.relations.get(index.table)
    if table is None:
        return None
    mode = strongest(statement, table)
    built = any(text.startswith(f'"{bare(name)}" on table') for text in statement.notes("building index "))
    return table if built and mode is not None and mode.dangerous else None


def bare(name: str) -> str:
    """The name of a relation without its schema and quotes, as notices have it."""
    return name.rpartition('."')[2].removesuffix('"') if name.endswith('"') else name.rpartition(".")[2]


def new_columns(statement: Statement, table: str) -> list[Column]:
    """Columns that the statement added to a table."""
    return [each for each in added(statement, Column) if each.table == table]


def slow(statement: Statement) -> str | None:
    """What makes the statement's time grow with a table's rows; None when nothing does."""
    if statement.rewritten:
        return "rewrites a table or an index"
    if statement.notes("building index "):
        return "builds an index"
    if statement.notes("verifying table ") or statement.notes("validating foreign key constraint "):
        return "checks every row"
    if statement.scanned:
        return "reads a whole table"
    return None
