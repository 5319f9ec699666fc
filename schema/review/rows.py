"""Rows for any schema: values that the catalog's types, keys and CHECKs allow, written in foreign key order."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

ROWS = 20
"""How many a table that is empty is given."""

_TABLES = """
    SELECT c.oid::bigint AS oid, format('%I.%I', n.nspname, c.relname) AS name,
        ARRAY(SELECT k.confrelid::bigint FROM pg_constraint AS k WHERE k.conrelid = c.oid AND k.contype = 'f'
            AND k.confrelid <> c.oid) AS parents
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
        AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    ORDER BY 2"""

_COLUMNS = """
    SELECT a.attrelid::bigint AS table, quote_ident(a.attname) AS name, format_type(a.atttypid, a.atttypmod) AS type,
        format_type(b.oid, NULL) AS base, b.typcategory::text AS category, b.typtype::text AS sort,
        CASE WHEN a.atttypmod > 4 AND b.typname IN ('varchar', 'bpchar') THEN a.atttypmod - 4
            WHEN t.typtypmod > 4 AND b.typname IN ('varchar', 'bpchar') THEN t.typtypmod - 4 END AS length,
        a.attnotnull OR t.typnotnull AS required, a.atthasdef OR a.attidentity <> '' AS defaulted,
        a.attgenerated <> '' OR a.attidentity = 'a' AS skipped,
        ARRAY(SELECT e.enumlabel::text FROM pg_enum AS e WHERE e.enumtypid = b.oid ORDER BY e.enumsortorder) AS labels,
        ARRAY(SELECT pg_get_expr(k.conbin, k.conrelid) FROM pg_constraint AS k
            WHERE k.conrelid = a.attrelid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]) AS checks,
        ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint AS k
            WHERE k.contype = 'c' AND (k.contypid = t.oid OR k.conrelid = a.attrelid AND a.attnum = ANY (k.conkey)))
            AS hints,
        (SELECT format('SELECT %%I AS value FROM %%s ORDER BY %%s', f.attname, k.confrelid::regclass,
                (SELECT string_agg(quote_ident(o.attname), ', ') FROM pg_attribute AS o
                 WHERE o.attrelid = k.confrelid AND o.attnum = ANY (k.confkey)))
            FROM pg_constraint AS k JOIN pg_attribute AS f ON f.attrelid = k.confrelid
                AND f.attnum = k.confkey[array_position(k.conkey, a.attnum)]
            WHERE k.conrelid = a.attrelid AND k.contype = 'f' AND a.attnum = ANY (k.conkey)
            ORDER BY cardinality(k.conkey) DESC, k.conname LIMIT 1) AS source
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
        JOIN pg_type AS b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
    WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum"""

_BY_TYPE = {
    "boolean": "g % 2 = 0",
    "date": "DATE '2025-01-01' + g::int",
    "timestamp with time zone": "TIMESTAMPTZ '2025-01-01 00:00:00Z' + g * INTERVAL '1 hour'",
    "timestamp without time zone": "TIMESTAMP '2025-01-01 00:00:00' + g * INTERVAL '1 hour'",
    "time without time zone": "TIME '00:00:00' + g * INTERVAL '1 minute'",
    "time with time zone": "TIMETZ '00:00:00Z' + g * INTERVAL '1 minute'",
    "interval": "g * INTERVAL '1 minute'",
    "uuid": "lpad(to_hex(g), 32, '0')::uuid",
    "json": "json_build_object('number', g)",
    "jsonb": "jsonb_build_object('number', g)",
    "bytea": "decode(lpad(to_hex(g), 8, '0'), 'hex')",
    "inet": "'10.0.0.0'::inet + g",
    "cidr": "(('10.0.' || g || '.0')::inet::cidr)",
    "macaddr": "('08:00:2b:01:02:' || lpad(to_hex(g), 2, '0'))::macaddr",
    "money": "g::int::money",
    "xml": "('<n>' || g || '</n>')::xml",
    "int4range": "int4range(g::int, g::int + 1)",
    "int8range": "int8range(g, g + 1)",
    "numrange": "numrange(g, g + 1)",
    "daterange": "daterange(DATE '2025-01-01' + g::int, DATE '2025-01-02' + g::int)",
    "tstzrange": "tstzrange('2025-01-01Z'::timestamptz + g * INTERVAL '1 hour', "
    "'2025-01-01 01:00Z'::timestamptz + g * INTERVAL '1 hour')",
    "tsvector": "to_tsvector('simple', 'word' || g)",
    "point": "point(g, g)",
    "bit": "'0'::bit",
}

_STRING = re.compile(r"'((?:[^']|'')*)'")
_NUMBER = re.compile(r"(?<![\w'])-?\d+(?:\.\d+)?(?![\w'])")


@dataclass(frozen=True)
class _Column:
    table: int
    name: str
    type: str
    base: str
    category: str
    sort: str
    length: int | None
    required: bool
    defaulted: bool
    skipped: bool
    labels: list[str]
    checks: list[str]
    hints: list[str]
    source: str | None


@dataclass(frozen=True)
class Unfilled:
    """A table for which no rows could be made, and why."""

    table: str
    reason: str


def fill(connection: psycopg.Connection[Any], *, rows: int = ROWS, ignored: frozenset[str]) -> list[Unfilled]:
    """Give every empty table rows, parents first, and return those that could not be given any.

    The connection is in autocommit; each table is a transaction of its own, in a database that nobody else uses.
    Values are distinct and not NULL where the catalog allows it, so that a constraint added later seldom fails for
    them alone.
    """
    tables = [row for row in connection.execute(_TABLES).fetchall() if row[1] not in ignored]
    empty = _empty(connection, tables)
    columns: dict[int, list[_Column]] = {oid: [] for oid in empty}
    with connection.cursor(row_factory=class_row(_Column)) as cursor:
        for column in cursor.execute(_COLUMNS, [sorted(empty)]):
            columns[column.table].append(column)
    maker = _Maker(connection)
    unfilled: list[Unfilled] = []
    for oid, name, _ in _ordered(tables):
        if oid in empty and (reason := maker.fill(name, [each for each in columns[oid] if not each.skipped], rows)):
            unfilled.append(Unfilled(name, reason))
    return unfilled


def _empty(connection: psycopg.Connection[Any], tables: Sequence[tuple[int, str, list[int]]]) -> set[int]:
    looks = " UNION ALL ".join(f"SELECT {oid} WHERE NOT EXISTS (SELECT FROM {name})" for oid, name, _ in tables)  # noqa: S608
    return {row[0] for row in connection.execute(looks.encode())} if looks else set()


def _ordered(tables: Sequence[tuple[int, str, list[int]]]) -> Iterator[tuple[int, str, list[int]]]:
    """Parents before children; what is left is a circle, in any order."""
    waiting, done = list(tables), set[int]()
    known = {oid for oid, *_ in tables}
    while waiting:
        free = [each for each in waiting if set(each[2]) & known <= done] or waiting[:1]
        yield from free
        done |= {oid for oid, *_ in free}
        waiting = [each for each in waiting if each not in free]


class _Maker:
    """Makes rows, and remembers which kind of value a kind of column takes."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._known: dict[tuple[object, ...], int | None] = {}

    def fill(self, table: str, columns: Sequence[_Column], rows: int) -> str | None:
        """Write rows, and return why there are none."""
        reason = "it has no rows to refer to"
        # First everything filled, then only what is required; each with the defaults where there are some, or without.
        for optional in (True, False):
            for defaults in (True, False):
                chosen = {}
                for column in columns:
                    if (column.defaulted and defaults) or not (column.required or optional):
                        continue
                    expression = self._expression(column)
                    if expression is None and column.required and not column.defaulted:
                        return f"no value of {column.name} ({column.type}) could be made"
                    if expression is not None:
                        chosen[column.name] = expression
                try:
                    written = self.connection.execute(_insert(table, chosen, rows).encode()).rowcount
                except psycopg.Error as error:
                    reason = error.diag.message_primary or str(error)
                    continue
                if written:
                    return None
        return reason

    def _expression(self, column: _Column) -> str | None:
        """An SQL expression of the row number `g` that the column's type and own CHECKs accept; None when none does."""
        if column.source is not None:
            return f"(SELECT (array_agg(value))[1 + g % nullif(count(*), 0)] FROM ({column.source}) AS parent)"  # noqa: S608
        candidates = list(_candidates(column))
        kind = (column.type, column.length, *column.labels)
        # A condition names its columns, so what satisfies one says nothing of another's.
        plain = not column.checks and not column.hints
        if not plain or kind not in self._known:
            accepted = (place for place, candidate in enumerate(candidates) if self._accepts(column, candidate))
            self._known[kind if plain else ()] = place = next(accepted, None)
        else:
            place = self._known[kind]
        return None if place is None else f"({candidates[place]})::{column.type}"

    def _accepts(self, column: _Column, candidate: str) -> bool:
        conditions = " AND ".join(f"({check}) IS NOT FALSE" for check in column.checks) or "true"
        made = f"SELECT ({candidate})::{column.type} AS {column.name} FROM generate_series(1, {ROWS}) AS g"  # noqa: S608
        # Counted, or the planner would leave the cast out.
        probe = f"SELECT bool_and({conditions}) AND count({column.name}) = {ROWS} FROM ({made}) AS made"  # noqa: S608
        try:
            row = self.connection.execute(probe.encode()).fetchone()
        except psycopg.Error:
            return False
        return row is not None and bool(row[0])


def _insert(table: str, chosen: dict[str, str], rows: int) -> str:
    if not chosen:
        return f"INSERT INTO {table} DEFAULT VALUES"
    names, values = ", ".join(chosen), ", ".join(chosen.values())
    return f"INSERT INTO {table} ({names}) SELECT {values} FROM generate_series(1, {rows}) AS g ON CONFLICT DO NOTHING"  # noqa: S608


def _candidates(column: _Column) -> Iterator[str]:
    if column.labels:
        yield f"{_array(column.labels)}[1 + g % {len(column.labels)}]"
    if column.category == "A":
        yield "'{}'"
    if column.base in _BY_TYPE:
        yield _BY_TYPE[column.base]
    if column.category == "N":
        yield "g"
    if column.category == "S":
        prefix = re.sub(r"\W", "", column.name)[: max((column.length or 63) - 4, 0)]
        yield f"right({_literal(prefix)} || g, {column.length or 63})"
    strings = [text.replace("''", "'") for hint in column.hints for text in _STRING.findall(hint)]
    numbers = [text for hint in column.hints for text in _NUMBER.findall(hint)]
    if strings:
        yield f"{_array(strings)}[1 + g % {len(strings)}]"
    for text in [*strings, *numbers]:
        yield _literal(text)
    for text in numbers:
        yield f"{text} + 1"
        yield f"{text} - 1"
    yield from ("''", "'1'", "'{}'", "'a'", "'0'", "'empty'", "g::text")


def _array(values: Sequence[str]) -> str:
    return f"(ARRAY[{', '.join(map(_literal, values))}]::text[])"


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None)
