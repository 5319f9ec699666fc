"""Tables."""

from typing import Any

from schema.drift.comparators.base import Comparator, same_options, set_options
from schema.pg.catalog import Kind
from schema.pg.catalog.tables import Table

_DEFAULTS = {
    "fillfactor": "100",
    "autovacuum_enabled": "on",
    "toast_tuple_target": "2032",
    "user_catalog_table": "off",
    "vacuum_truncate": "on",
}
"""Storage parameters whose default no setting of the server changes ("Storage Parameters" of CREATE TABLE)."""


class TableComparator(Comparator):
    """Tables as such; columns, constraints and the rest have their own comparators."""

    kinds = (Kind.TABLE,)
    noun = "TABLE"

    def summary(self, found: Any) -> str | None:
        """Sort and place in a hierarchy."""
        words = [found.sort.upper()]
        words += [f"PARTITION BY {found.partition_key}"] if found.partition_key else []
        if found.inherits:
            verb = "PARTITION OF" if found.partition_bound else "INHERITS"
            words.append(f"{verb} {', '.join(found.inherits)} {found.partition_bound or ''}".rstrip())
        return " ".join(words)

    def option_defaults(self, found: Any) -> dict[str, str]:
        """Of heap tables."""
        return _DEFAULTS

    def equivalent(self, one: Table, other: Table, attribute: str) -> str | None:
        """Storage options, those of the TOAST table included."""
        if attribute == "toast options":
            return same_options(_DEFAULTS, one.toast_options, other.toast_options)
        return super().equivalent(one, other, attribute)

    def created(self, wanted: Table) -> list[str]:
        """CREATE TABLE, for a partition: all else is in the parent."""
        if not wanted.partition_bound:
            return []
        key = f" PARTITION BY {wanted.partition_key}" if wanted.partition_key else ""
        return [f"CREATE TABLE {wanted.identity} PARTITION OF {wanted.inherits[0]} {wanted.partition_bound}{key}"]

    def altered(self, wanted: Table, found: Table, attribute: str) -> list[str]:
        """ALTER TABLE."""
        alter = f"ALTER TABLE {wanted.identity}"
        match attribute:
            case "row security":
                return [f"{alter} {'ENABLE' if wanted.row_security else 'DISABLE'} ROW LEVEL SECURITY"]
            case "forced row security":
                return [f"{alter} {'' if wanted.forced_row_security else 'NO '}FORCE ROW LEVEL SECURITY"]
            case "replica identity" if wanted.replica_identity != "index":
                return [f"{alter} REPLICA IDENTITY {wanted.replica_identity.upper()}"]
            case "persistence" if wanted.persistence != "temporary":
                return [f"{alter} SET {'UNLOGGED' if wanted.persistence == 'unlogged' else 'LOGGED'}"]
            case "toast options":
                return set_options("TABLE", wanted.identity, wanted.toast_options, found.toast_options, "toast.")
            case "access method" if wanted.access_method:
                return [f"{alter} SET ACCESS METHOD {wanted.access_method}"]
            case "tablespace":
                return [f"{alter} SET TABLESPACE {wanted.tablespace or 'pg_default'}"]
        return super().altered(wanted, found, attribute)
