"""What a project's env.py leaves out of its comparisons: include_object and include_name."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from schema.drift.capture import Configuration
from schema.drift.comparators.base import unquoted
from schema.drift.difference import Difference
from schema.pg.catalog import Kind


class Filters:
    """Asks the project's own filters, as Alembic would, about the objects that Alembic has words for."""

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        self._configurations = configurations
        self._tables = {
            (table.schema or "public", table.name): table
            for configuration in configurations
            for metadata in configuration.metadata
            for table in metadata.tables.values()
        }

    def kept(self, differences: Iterable[Difference]) -> list[Difference]:
        """The differences that no filter leaves out."""
        if not any(each.include_object or each.include_name for each in self._configurations):
            return list(differences)
        return [each for each in differences if self._included(each)]

    def _included(self, difference: Difference) -> bool:
        # With several configurations each looks at a part: what one of them includes is compared.
        return any(self._by(configuration, difference) for configuration in self._configurations)

    def _by(self, configuration: Configuration, difference: Difference) -> bool:
        found = difference.first or difference.second
        schema, table = _place(difference)
        if schema is None:
            return True
        ask, name_of = configuration.include_object, configuration.include_name
        parents: dict[str, str | None] = {"schema_name": None if schema == "public" else schema}
        if name_of is not None and schema != "public" and not name_of(schema, "schema", {}):
            return False
        if table is None:
            return True
        ours = self._tables.get((schema, table))
        parents |= {
            "table_name": table,
            "schema_qualified_table_name": f"{schema}.{table}" if schema != "public" else table,
        }
        if name_of is not None and not name_of(table, "table", {"schema_name": parents["schema_name"]}):
            return False
        stub = ours if ours is not None else sa.Table(table, sa.MetaData(), schema=parents["schema_name"])
        if ask is not None and not ask(stub, table, "table", ours is None, None):
            return False
        kind = _type_of(difference)
        if kind is None:
            return True
        name = unquoted(str(getattr(found, "name", "")))
        if name_of is not None and not name_of(name, kind, parents):
            return False
        member = _member(stub, name, kind)
        return ask is None or bool(ask(member, name, kind, difference.first is None, None))


def _place(difference: Difference) -> tuple[str | None, str | None]:
    """Schema and table that the object is in, unquoted; None for what has none."""
    found: Any = difference.first or difference.second
    qualified = getattr(found, "table", None) or (
        found.identity if difference.kind in {Kind.TABLE, Kind.VIEW} else None
    )
    if qualified is None:
        schema = getattr(found, "schema", None)
        return (unquoted(schema) if isinstance(schema, str) else None, None)
    schema, _, table = str(qualified).partition(".")
    return unquoted(schema), unquoted(table)


def _type_of(difference: Difference) -> str | None:
    """What Alembic calls the kind of the object."""
    match difference.kind:
        case Kind.COLUMN:
            return "column"
        case Kind.INDEX:
            return "index"
        case Kind.CONSTRAINT:
            sorts = {"UNIQUE": "unique_constraint", "FOREIGN KEY": "foreign_key_constraint"}
            return sorts.get(str(getattr(difference.first or difference.second, "sort", "")))
    return None


def _member(table: sa.Table, name: str, kind: str) -> Any:
    """The object of the metadata, or one of its kind that has its name."""
    if kind == "column":
        return table.columns[name] if name in table.columns else sa.Column(name, sa.types.NullType())
    if kind == "index":
        return next((each for each in table.indexes if each.name == name), sa.Index(name))
    named = next((each for each in table.constraints if each.name == name), None)
    return named if named is not None else sa.UniqueConstraint(name=name)
