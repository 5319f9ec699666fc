"""CHECK, foreign key, primary key, unique and exclusion constraints; NOT NULL is told by the column."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source
from schema.pg.catalog.fragments import USER_SCHEMA, comment, not_extension


@dataclass(frozen=True, slots=True)
class Constraint(CatalogObject):
    """A constraint of a table. Inherited ones are told by the table that they come from."""

    kind: ClassVar = Kind.CONSTRAINT
    keys: ClassVar = frozenset({"table", "name"})

    table: str
    name: str
    sort: str
    """`CHECK`, `FOREIGN KEY`, `PRIMARY KEY`, `UNIQUE` or `EXCLUDE`."""
    definition: str
    """As PostgreSQL prints it, without the words that the following attributes tell."""
    validated: bool
    enforced: bool
    deferrable: str
    no_inherit: bool
    triggers: str
    """State of the internal triggers that enforce a foreign key: `enabled`, or what they are instead."""
    comment: str | None

    @property
    def identity(self) -> str:
        """Table and name: two tables may have constraints of one name."""
        return f"{self.table}.{self.name}"

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its table."""
        return (Key(Kind.TABLE, self.table),)

    @property
    def suffix(self) -> str:
        """What the definition lacks to be whole again."""
        words = " NO INHERIT" if self.no_inherit and self.sort == "CHECK" else ""
        if self.deferrable != "NOT DEFERRABLE":
            words += f" {self.deferrable}"
        if not self.enforced:
            return f"{words} NOT ENFORCED"
        return words if self.validated else f"{words} NOT VALID"


def _constraints(version: int) -> str:
    enforced = "k.conenforced" if version >= 180000 else "true"
    return f"""
        SELECT format('%I.%I', n.nspname, c.relname), quote_ident(k.conname),
            CASE k.contype WHEN 'c' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY' WHEN 'p' THEN 'PRIMARY KEY'
                WHEN 'u' THEN 'UNIQUE' ELSE 'EXCLUDE' END,
            CASE WHEN right(d.definition, length(d.suffix)) = d.suffix
                THEN left(d.definition, length(d.definition) - length(d.suffix)) ELSE d.definition END,
            k.convalidated, {enforced},
            CASE WHEN k.condeferred THEN 'DEFERRABLE INITIALLY DEFERRED' WHEN k.condeferrable THEN 'DEFERRABLE'
                ELSE 'NOT DEFERRABLE' END,
            k.connoinherit AND k.contype = 'c',
            CASE k.contype WHEN 'f' THEN coalesce((
                SELECT string_agg(DISTINCT CASE t.tgenabled WHEN 'O' THEN 'enabled' WHEN 'D' THEN 'disabled'
                    WHEN 'R' THEN 'replica only' ELSE 'always' END, ', ')
                FROM pg_trigger AS t WHERE t.tgconstraint = k.oid), 'enabled') ELSE 'enabled' END,
            {comment("pg_constraint", "k.oid")}
        FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            CROSS JOIN LATERAL (SELECT pg_get_constraintdef(k.oid) AS definition, concat(
                CASE WHEN k.connoinherit AND k.contype = 'c' THEN ' NO INHERIT' END,
                CASE WHEN k.condeferrable THEN ' DEFERRABLE' END,
                CASE WHEN k.condeferred THEN ' INITIALLY DEFERRED' END,
                CASE WHEN NOT {enforced} THEN ' NOT ENFORCED' WHEN NOT k.convalidated THEN ' NOT VALID' END
                ) AS suffix OFFSET 0) AS d
        WHERE k.contype IN ('c', 'f', 'p', 'u', 'x') AND k.conparentid = 0 AND k.coninhcount = 0 AND {USER_SCHEMA}
            AND {not_extension("pg_class", "c.oid")}"""


SOURCES = (Source(Constraint, _constraints),)
