"""Columns."""

import re

from schema.drift.comparators.base import Comparator, Probe, granted, literal, unquoted
from schema.pg.catalog import Kind
from schema.pg.catalog.columns import Column

_SERVER_NAMED = re.compile(r"_not_null\d*\"?$")
"""End of the name that PostgreSQL 18 gives a NOT NULL constraint."""

_UNALTERABLE = re.compile(r" AS \w+| UNLOGGED")
"""What of an identity column's sequence no ALTER COLUMN changes."""
_SEQUENCE_OPTION = re.compile(r"\b(START|INCREMENT|MINVALUE|MAXVALUE|CACHE) (-?\d+)")
_SEQUENCE_DEFAULTS = {"START": "1", "INCREMENT": "1", "MINVALUE": "", "MAXVALUE": "", "CACHE": "1"}


class ColumnComparator(Comparator):
    """Columns. Names that the server chose for a column's own sequence and NOT NULL may be of an older name."""

    kinds = (Kind.COLUMN,)

    def summary(self, found: Column) -> str | None:
        """Type, default and nullability."""
        return self._definition(found)

    def told_elsewhere(self, one: Column, other: Column, attribute: str) -> bool:
        """What comes and goes with the identity or the NOT NULL."""
        match attribute:
            case "identity sequence" | "identity privileges" | "identity comment":
                return one.identity_options is None or other.identity_options is None
            case "not null constraint" | "not null state":
                return one.not_null != other.not_null
        return False

    def equivalent(self, one: Column, other: Column, attribute: str) -> str | None:
        """Names of the server's choice."""
        match attribute:
            case "identity sequence":
                return "the sequence of an identity column may have any name"
            case "default" if one.default_is_own_sequence and other.default_is_own_sequence:
                return "the column's own sequence has another name"
            case "not null constraint":
                names = one.not_null_constraint, other.not_null_constraint
                if all(name and _SERVER_NAMED.search(name) for name in names):
                    return "the server named it, before a rename"
        return super().equivalent(one, other, attribute)

    def folded_as(self, one: Column, other: Column, attribute: str) -> str | None:
        """A default is evaluated as the column's type."""
        return one.type if attribute == "default" and one.type == other.type else None

    def probe(self, one: Column, attribute: str) -> Probe | None:
        """The default is set and printed; a generated column is made beside."""
        where = f"adrelid = {literal(one.table)}::regclass AND adnum = (SELECT attnum FROM pg_attribute"
        query = f"SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE {where}"
        if attribute == "default":
            return Probe(
                lambda text: [f"ALTER TABLE {one.table} ALTER COLUMN {one.name} SET DEFAULT {text}"],
                f"{query} WHERE attrelid = adrelid AND quote_ident(attname) = {literal(one.name)})",
            )
        if attribute == "generated" and one.generated is not None:
            sort = one.generated.partition(" ")[0]
            return Probe(
                lambda text: [
                    f"ALTER TABLE {one.table} ADD COLUMN schemactl_trial {one.type}"
                    f" GENERATED ALWAYS AS ({text.partition(' ')[2]}) {text.partition(' ')[0]}"
                ],
                f"{query} WHERE attrelid = adrelid AND attname = 'schemactl_trial')",
                lambda text: f"{sort} {text}",
            )
        return None

    def created(self, wanted: Column) -> list[str]:
        """ADD COLUMN."""
        return [f"ALTER TABLE {wanted.table} ADD COLUMN {wanted.name} {self._definition(wanted)}"]

    def dropped(self, found: Column) -> list[str]:
        """DROP COLUMN."""
        return [f"ALTER TABLE {found.table} DROP COLUMN {found.name}"]

    def renamed(self, wanted: Column, found: Column) -> list[str]:
        """RENAME COLUMN."""
        return [f"ALTER TABLE {wanted.table} RENAME COLUMN {found.name} TO {wanted.name}"]

    def altered(self, wanted: Column, found: Column, attribute: str) -> list[str]:
        """ALTER COLUMN."""
        alter = f"ALTER TABLE {wanted.table} ALTER COLUMN {wanted.name}"
        match attribute:
            case "type" | "collation":
                collation = f" COLLATE {wanted.collation}" if wanted.collation else ""
                if attribute == "collation" and not wanted.collation:
                    collation = ' COLLATE "default"'
                return [f"{alter} TYPE {wanted.type}{collation}"]
            case "not null":
                return [f"{alter} {'SET' if wanted.not_null else 'DROP'} NOT NULL"]
            case "not null constraint" if wanted.not_null_constraint and found.not_null_constraint:
                old, new = found.not_null_constraint, wanted.not_null_constraint
                return [f"ALTER TABLE {wanted.table} RENAME CONSTRAINT {old} TO {new}"]
            case "not null state" if not wanted.not_null_state and found.not_null_state == " NOT VALID":
                return [f"ALTER TABLE {wanted.table} VALIDATE CONSTRAINT {found.not_null_constraint}"]
            case "default":
                return [f"{alter} DROP DEFAULT" if wanted.default is None else f"{alter} SET DEFAULT {wanted.default}"]
            case "identity options":
                return self._identity(alter, wanted, found)
            case "storage" if wanted.storage:
                return [f"{alter} SET STORAGE {wanted.storage.upper()}"]
            case "compression":
                return [f"{alter} SET COMPRESSION {wanted.compression or 'default'}"]
            case "statistics target":
                return [
                    f"{alter} SET STATISTICS {-1 if wanted.statistics_target is None else wanted.statistics_target}"
                ]
            case "options":
                gone = [option.partition("=")[0] for option in found.options if option not in wanted.options]
                reset = [f"{alter} RESET ({', '.join(gone)})"] if gone else []
                return reset + ([f"{alter} SET ({', '.join(wanted.options)})"] if wanted.options else [])
            case "comment":
                return [f"COMMENT ON COLUMN {wanted.identity} IS {literal(wanted.comment)}"]
            case "privileges":
                columns = f" ({wanted.name})"
                return granted("TABLE", wanted.table, "CURRENT_USER", wanted.privileges, found.privileges, columns)
        return []

    def _identity(self, alter: str, wanted: Column, found: Column) -> list[str]:
        if wanted.identity_options is None:
            return [f"{alter} DROP IDENTITY"]
        sort, _, options = wanted.identity_options.partition(" START ")
        kind = sort.partition(" AS ")[0]
        if found.identity_options is None:
            # Without the second statement the next row would get a number that another one has.
            sequence = f"pg_get_serial_sequence({literal(wanted.table)}, {literal(unquoted(wanted.name))})"
            return [
                f"{alter} ADD GENERATED {kind} AS IDENTITY (START {options})",
                f"SELECT setval({sequence}, max({wanted.name})) FROM {wanted.table} HAVING max({wanted.name}) > 0",
            ]
        if _UNALTERABLE.findall(wanted.identity_options) != _UNALTERABLE.findall(found.identity_options):
            return []
        # Not dropped and added again: the sequence keeps its place.
        given = {**_SEQUENCE_DEFAULTS, **dict(_SEQUENCE_OPTION.findall(wanted.identity_options))}
        words = [f"SET {name} {value}" if value else f"SET NO {name}" for name, value in given.items()]
        cycle = "SET CYCLE" if " CYCLE" in wanted.identity_options else "SET NO CYCLE"
        return [" ".join([alter, f"SET GENERATED {kind}", *words, cycle])]

    def _definition(self, column: Column) -> str:
        words = [column.type or ""]
        words += [f"COLLATE {column.collation}"] if column.collation else []
        if column.generated:
            sort, _, expression = column.generated.partition(" ")
            words.append(f"GENERATED ALWAYS AS ({expression}) {sort}")
        if column.identity_options:
            sort, _, options = column.identity_options.partition(" START ")
            words.append(f"GENERATED {sort.partition(' AS ')[0]} AS IDENTITY (START {options})")
        words += [f"DEFAULT {column.default}"] if column.default is not None else []
        words += ["NOT NULL"] if column.not_null else []
        return " ".join(words)
