"""Views, materialised views and rewrite rules."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source, in_schema
from schema.pg.catalog.fragments import USER_SCHEMA, acl, comment, not_extension, options, tablespace


@dataclass(frozen=True, slots=True)
class View(CatalogObject):
    """A view, materialised or not."""

    kind: ClassVar = Kind.VIEW
    keys: ClassVar = frozenset({"schema", "name"})

    schema: str
    name: str
    materialized: bool
    definition: str
    options: tuple[str, ...]
    access_method: str | None
    tablespace: str | None
    populated: bool
    owner: str
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Schema and name."""
        return in_schema(self.schema, self.name)

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its schema."""
        return (Key(Kind.SCHEMA, self.schema),)


@dataclass(frozen=True, slots=True)
class Rule(CatalogObject):
    """A rewrite rule, other than the one that makes a view."""

    kind: ClassVar = Kind.RULE
    keys: ClassVar = frozenset({"of_view", "table", "name"})

    of_view: bool
    table: str
    name: str
    definition: str
    enabled: str
    comment: str | None

    @property
    def identity(self) -> str:
        """Table and name."""
        return f"{self.table}.{self.name}"

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its table or view."""
        return (Key(Kind.VIEW if self.of_view else Kind.TABLE, self.table),)


def enabled(column: str) -> str:
    """When a trigger or rule fires, in words."""
    return (
        f"CASE {column} WHEN 'O' THEN 'enabled' WHEN 'D' THEN 'disabled' WHEN 'R' THEN 'replica only' ELSE 'always' END"
    )


def _views(version: int) -> str:
    return f"""
        SELECT quote_ident(n.nspname), quote_ident(c.relname), c.relkind = 'm', pg_get_viewdef(c.oid),
            {options("c.reloptions")}, (SELECT quote_ident(m.amname) FROM pg_am AS m WHERE m.oid = c.relam),
            {tablespace("c.reltablespace")}, c.relispopulated,
            c.relowner::regrole::text, {acl("c.relacl", "r", "c.relowner")}, {comment("pg_class", "c.oid")}
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('v', 'm') AND {USER_SCHEMA} AND {not_extension("pg_class", "c.oid")}"""


def _rules(version: int) -> str:
    return f"""
        SELECT c.relkind = 'v', format('%I.%I', n.nspname, c.relname), quote_ident(w.rulename),
            pg_get_ruledef(w.oid),
            {enabled("w.ev_enabled")}, {comment("pg_rewrite", "w.oid")}
        FROM pg_rewrite AS w JOIN pg_class AS c ON c.oid = w.ev_class JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE w.rulename <> '_RETURN' AND {USER_SCHEMA} AND {not_extension("pg_class", "c.oid")}"""


SOURCES = (Source(View, _views), Source(Rule, _rules))
