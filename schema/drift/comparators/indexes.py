"""Indexes."""

import re

from schema.drift.comparators.base import Comparator, Probe, literal, set_options
from schema.pg.catalog import Kind
from schema.pg.catalog.indexes import Index

_DEFAULTS = {
    "btree": {"fillfactor": "90", "deduplicate_items": "on"},
    "hash": {"fillfactor": "75"},
    "gist": {"fillfactor": "90", "buffering": "auto"},
    "spgist": {"fillfactor": "80"},
    "gin": {"fastupdate": "on"},
    "brin": {"pages_per_range": "128", "autosummarize": "off"},
}
"""Storage parameters whose default no setting of the server changes ("Index Storage Parameters" of CREATE INDEX)."""

_METHOD = re.compile(r" USING (\w+) ")


class IndexComparator(Comparator):
    """Indexes. One behind a constraint is dropped and made with that."""

    kinds = (Kind.INDEX,)
    noun = "INDEX"

    def summary(self, found: Index) -> str | None:
        """The definition, or whose index it is."""
        return found.definition or f"index of {found.constraint or found.parent}"

    def option_defaults(self, found: Index) -> dict[str, str]:
        """Of its access method; keys are btree's."""
        method = _METHOD.search(found.definition or " USING btree ")
        return _DEFAULTS.get(method.group(1), {}) if method else {}

    def told_elsewhere(self, one: Index, other: Index, attribute: str) -> bool:
        """Only one of the two is a constraint's own, and that is told."""
        return attribute == "definition" and one.constraint != other.constraint

    def probe(self, one: Index, attribute: str) -> Probe | None:
        """The index is dropped and made again."""
        if attribute != "definition" or one.constraint is not None:
            return None
        return Probe(
            lambda text: [f"DROP INDEX {one.identity} CASCADE", text],
            f"SELECT pg_get_indexdef({literal(one.identity)}::regclass)",
        )

    def created(self, wanted: Index) -> list[str]:
        """CREATE INDEX, CONCURRENTLY where that exists."""
        if wanted.definition is None:
            return []
        definition = wanted.definition
        if wanted.options:
            head, where, predicate = definition.partition(" WHERE ")
            definition = f"{head} WITH ({', '.join(wanted.options)}){where}{predicate}"
        if " ON ONLY " in definition:
            return [definition]
        return [re.sub(r"^(CREATE (?:UNIQUE )?INDEX) ", r"\1 CONCURRENTLY ", definition)]

    def dropped(self, found: Index) -> list[str]:
        """DROP INDEX CONCURRENTLY."""
        if found.definition is None:
            return []
        concurrently = "" if " ON ONLY " in found.definition else "CONCURRENTLY "
        return [f"DROP INDEX {concurrently}{found.identity}"]

    def altered(self, wanted: Index, found: Index, attribute: str) -> list[str]:
        """ALTER INDEX, or drop it and make it again."""
        match attribute:
            case "definition":
                return self.dropped(found) + self.created(wanted)
            case "valid" | "ready" | "live":
                return [f"REINDEX INDEX CONCURRENTLY {wanted.identity}"]
            case "clustered":
                on = f"CLUSTER ON {wanted.name}" if wanted.clustered else "SET WITHOUT CLUSTER"
                return [f"ALTER TABLE {wanted.table} {on}"]
            case "replica identity" if wanted.replica_identity:
                return [f"ALTER TABLE {wanted.table} REPLICA IDENTITY USING INDEX {wanted.name}"]
            case "options":
                name = f"{wanted.schema}.{wanted.name}"
                return set_options("INDEX", name, wanted.options, found.options)
            case "tablespace":
                return [f"ALTER INDEX {wanted.schema}.{wanted.name} SET TABLESPACE {wanted.tablespace or 'pg_default'}"]
        return super().altered(wanted, found, attribute)

    def name(self, found: Index) -> str:
        """Schema and name, for a part of a partitioned index too."""
        return f"{found.schema}.{found.name}"
