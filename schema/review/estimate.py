"""Sizes of production's tables, its roles, and how long a statement that reads or writes them all would take there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from schema.errors import ConfigError
from schema.pg.connect import connect
from schema.pg.errors import translate
from schema.pg.target import Target
from schema.review.facts import Statement, Trace
from schema.review.finding import Size

_KEY, _ROLES_KEY = "tables_v1", "roles_v1"
_MOST_TUPLES_PER_S, _LEAST_TUPLES_PER_S = 5_000_000.0, 100_000.0
"""The rate measured on a few rows is mostly the cost of starting: estimates stay between these."""

# Whatever is partitioned has its rows in its leaves; the catalog's own numbers need no more than a look.
_SIZES = """
    SELECT format('%I.%I', n.nspname, c.relname), greatest(c.reltuples, 0)::bigint,
        c.relpages::bigint * current_setting('block_size')::bigint
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
        AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    UNION ALL
    SELECT format('%I.%I', n.nspname, c.relname), sum(greatest(l.reltuples, 0))::bigint,
        sum(l.relpages)::bigint * current_setting('block_size')::bigint
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL pg_partition_tree(c.oid) AS t JOIN pg_class AS l ON l.oid = t.relid AND t.isleaf
    WHERE c.relkind = 'p' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    GROUP BY n.nspname, c.relname
    ORDER BY 1"""

_ROLES = "SELECT rolname::text FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1"


@dataclass(frozen=True)
class Production:
    """What of production a review looks at."""

    sizes: Mapping[str, Size]
    roles: tuple[str, ...]
    """Names of its roles, which revisions may grant to."""


def read_production(target: Target) -> Production:
    """Rows and bytes of every table, from the catalog as ANALYZE left it, and the roles; only catalogs are read.

    Raises:
        DatabaseError: the database cannot be reached or read.
    """
    with connect(target, application_name="schemactl review", autocommit=True) as connection:
        try:
            sizes = {name: Size(rows, size) for name, rows, size in connection.execute(_SIZES)}
            return Production(sizes, tuple(row[0] for row in connection.execute(_ROLES)))
        except psycopg.Error as error:
            raise translate(error) or error from error


def dump_production(production: Production) -> dict[str, Any]:
    """The same as what JSON can hold; `load_production` reads it."""
    sizes = {name: {"rows": size.rows, "bytes": size.bytes} for name, size in production.sizes.items()}
    return {_KEY: sizes, _ROLES_KEY: list(production.roles)}


def load_production(path: Path) -> Production:
    """Read the JSON that `schemactl review stats` writes.

    Raises:
        ConfigError: the file cannot be read or is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        # Another version has other keys; it fails like any other file.
        sizes = {str(name): Size(int(each["rows"]), int(each["bytes"])) for name, each in data[_KEY].items()}
        return Production(sizes, tuple(map(str, data.get(_ROLES_KEY, ()))))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} holds no sizes of tables: {error}", hint="`schemactl review stats --output FILE` writes one."
        ) from error


def estimated(trace: Trace, statement: Statement, table: str, sizes: Mapping[str, Size] | None) -> float | None:
    """Seconds that what was seen of a statement would take on production's rows; None when it depends on none.

    Straight proportion from the scan rate measured on the scratch server; a warm cache and an idle disk there make
    it a lower bound.
    """
    size = None if sizes is None else sizes.get(table)
    oid = next((each.oid for each in trace.relations.values() if each.name == table), None)
    if size is None or oid is None:
        return None
    tuples = statement.scanned.get(oid, 0)
    if not tuples and not any(each.oid == oid for each in statement.rewritten):
        return None
    rate = max(tuples, trace.rows.get(oid, 0)) / max(statement.seconds, 1e-6)
    return round(size.rows / min(max(rate, _LEAST_TUPLES_PER_S), _MOST_TUPLES_PER_S), 1)
