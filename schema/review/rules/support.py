"""What several rules ask of a trace."""

from collections.abc import Iterator
from typing import TypeVar

from schema.pg.catalog import CatalogObject
from schema.pg.catalog.columns import Column
from schema.pg.catalog.constraints import Constraint
from schema.pg.catalog.functions import Function
from schema.pg.catalog.schemas import Schema
from schema.pg.catalog.types import Domain, Enum, OtherType
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


_NAMED = (Enum, Domain, OtherType, Function, Schema)


def renamed_objects(statement: Statement) -> list[tuple[CatalogObject, CatalogObject]]:
    """Types, functions and schemas that the statement gave another name, which no oid in a snapshot tells.

    One of a kind is gone and one has come: a statement that drops one and makes another is taken for this too.
    """
    found: list[tuple[CatalogObject, CatalogObject]] = []
    for kind in _NAMED:
        gone, come = list(removed(statement, kind)), list(added(statement, kind))
        if len(gone) == len(come) == 1:
            found.append((gone[0], come[0]))
    return found


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


def slow(context: Context, statement: Statement) -> str | None:
    """What makes the statement's time grow with the rows of older tables; None when nothing does."""
    old = [each for oid, each in statement.relations.items() if oid in context.trace.existing]
    if statement.rewritten:
        return "rewrites a table or an index"
    if statement.notes("building index ") and any(each.table in context.trace.existing for each in statement.created):
        return "builds an index"
    constraints = [*added(statement, Constraint), *(new for _, new in changed(statement, Constraint))]
    checked = statement.notes("validating foreign key constraint ")
    if any(statement.noted("verifying table ", each) for each in old) or any(
        checked and each.validated and existing(context, each.table, statement) for each in constraints
    ):
        return "checks every row"
    # Under a new table's foreign key the server looks at the older one, but finds nothing to compare.
    if statement.scanned and not checked:
        return "reads a whole table"
    return None
