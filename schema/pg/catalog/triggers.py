"""Triggers of tables, and event triggers. Those that enforce foreign keys are told by their constraint."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source
from schema.pg.catalog.fragments import USER_SCHEMA, comment, not_extension
from schema.pg.catalog.views import enabled


@dataclass(frozen=True, slots=True)
class Trigger(CatalogObject):
    """A trigger; a partition's copy has no definition of its own, only a state."""

    kind: ClassVar = Kind.TRIGGER
    keys: ClassVar = frozenset({"of_view", "table", "name", "parent_table"})

    of_view: bool
    table: str
    name: str
    parent_table: str | None
    """Set in a partition's copy: the table that it was copied from."""
    definition: str | None
    enabled: str
    comment: str | None

    @property
    def identity(self) -> str:
        """Table and name."""
        return f"{self.table}.{self.name}"

    @property
    def containers(self) -> tuple[Key, ...]:
        """The table or view, and the trigger that it was copied from."""
        table = Key(Kind.VIEW if self.of_view else Kind.TABLE, self.table)
        if self.parent_table is None:
            return (table,)
        return (table, Key(Kind.TRIGGER, f"{self.parent_table}.{self.name}"))


@dataclass(frozen=True, slots=True)
class EventTrigger(CatalogObject):
    """An event trigger."""

    kind: ClassVar = Kind.EVENT_TRIGGER
    keys: ClassVar = frozenset({"name"})

    name: str
    event: str
    function: str
    tags: tuple[str, ...]
    enabled: str
    owner: str
    comment: str | None

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name


def _triggers(version: int) -> str:
    return f"""
        SELECT c.relkind = 'v', format('%I.%I', n.nspname, c.relname), quote_ident(t.tgname),
            (SELECT parent.tgrelid::regclass::text FROM pg_trigger AS parent WHERE parent.oid = t.tgparentid),
            CASE t.tgparentid WHEN 0 THEN pg_get_triggerdef(t.oid) END, {enabled("t.tgenabled")},
            {comment("pg_trigger", "t.oid")}
        FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE NOT t.tgisinternal AND {USER_SCHEMA} AND {not_extension("pg_class", "c.oid")}
            AND {not_extension("pg_trigger", "t.oid")}"""


def _event_triggers(version: int) -> str:
    return f"""
        SELECT quote_ident(e.evtname), e.evtevent::text, e.evtfoid::regprocedure::text,
            coalesce(e.evttags, '{{}}'), {enabled("e.evtenabled")}, e.evtowner::regrole::text,
            {comment("pg_event_trigger", "e.oid")}
        FROM pg_event_trigger AS e WHERE {not_extension("pg_event_trigger", "e.oid")}"""


SOURCES = (Source(Trigger, _triggers), Source(EventTrigger, _event_triggers))
