"""Cuts the key space of a parent table into chunks.

Random uuids get ranges of equal width. Keys that are skewed or grow with time (versions 7 and 8 share a prefix) get
bounds from a sample. The first range has no lower bound and the last no upper one, so that a row that comes later is
inside some range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from psycopg import Connection, sql

from schema.backfill.job import Parent, Row

Bounds: TypeAlias = tuple[str | None, str | None]
"""Lower bound, excluded, and upper bound, included, as texts of keys; None is no bound."""

CHUNKS_MAX = 1024

SAMPLE_ROWS = 20_000
"""Rows that a sample aims at; tables up to five times that size are read whole."""

EVEN_ENOUGH = 1.5
"""A range may hold this many times its share of the sample for the keys to count as random."""

SHARE_MIN = 100
"""Rows of the sample per range, below which it says too little about how the keys are spread."""

COUNTED_MAX = 1_000_000
"""Rows up to which a table is counted; a larger one is taken at the planner's estimate."""


@dataclass(frozen=True)
class Partition:
    """How a key space is cut."""

    bounds: Sequence[Bounds]
    expected: int
    """Rows of the parent table, counted or estimated."""
    kind: str
    """`whole`, `fixed` or `sampled`."""


def cut(connection: Connection[Row], parent: Parent, *, chunk_size: int, workers: int) -> Partition:
    """Cut a parent table into chunks of about `chunk_size` rows, smaller when that leaves a worker without one."""
    expected = estimate(connection, parent)
    count = max(-(-expected // chunk_size), min(4 * workers, expected // 100) if workers > 1 else 1)
    count = max(1, min(count, CHUNKS_MAX))
    if count == 1:
        return Partition([(None, None)], expected, "whole")
    if parent.key_type == "uuid" and _is_even(_counts(connection, parent, fixed := _fixed(count), expected)):
        return Partition(_ranges(fixed), expected, "fixed")
    return Partition(_ranges(_sampled(connection, parent, count, expected)), expected, "sampled")


def estimate(connection: Connection[Row], parent: Parent) -> int:
    """Tell how many rows the parent table has: counted while it is small, the planner's estimate when it is large."""
    with connection.transaction():
        row = connection.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(quote_ident(%s))", (parent.table,)
        ).fetchone()
        if row is not None and row[0] > COUNTED_MAX:
            return int(row[0])
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(parent.table))).fetchone()
    assert row is not None
    return int(row[0])


def _fixed(count: int) -> list[str]:
    return [str(UUID(int=place * 2**128 // count)) for place in range(1, count)]


def _ranges(inner: Sequence[str]) -> list[Bounds]:
    return list(zip([None, *inner], [*inner, None], strict=True))


def _sample(expected: int) -> sql.Composable:
    """Whole blocks, read at random: a part of the table is read, however large it is."""
    if expected <= 5 * SAMPLE_ROWS:
        return sql.SQL("")
    return sql.SQL("TABLESAMPLE SYSTEM ({})").format(sql.Literal(100 * SAMPLE_ROWS / expected))


def _counts(connection: Connection[Row], parent: Parent, inner: Sequence[str], expected: int) -> list[int]:
    """Rows of the sample in each range between the bounds."""
    statement = sql.SQL(
        "SELECT width_bucket({key}, {bounds}::text[]::uuid[]), count(*) FROM {table} {sample} GROUP BY 1"
    ).format(
        key=sql.Identifier(parent.key),
        bounds=sql.Literal(list(inner)),
        table=sql.Identifier(parent.table),
        sample=_sample(expected),
    )
    with connection.transaction():
        counts: dict[int, int] = dict(connection.execute(statement).fetchall())
    return [counts.get(place, 0) for place in range(len(inner) + 1)]


def _is_even(counts: Sequence[int]) -> bool:
    share = sum(counts) / len(counts)
    return share >= SHARE_MIN and max(counts) <= EVEN_ENOUGH * share


def _sampled(connection: Connection[Row], parent: Parent, count: int, expected: int) -> list[str]:
    """Bounds that cut the sample into equal parts, by the key's own order; equal ones become one."""
    statement = sql.SQL(
        "SELECT DISTINCT bound, bound::text AS shown FROM ("
        " SELECT unnest(percentile_disc({places}::float8[]) WITHIN GROUP (ORDER BY {key})) AS bound"
        " FROM {table} {sample}) AS sampled WHERE bound IS NOT NULL ORDER BY bound"
    ).format(
        places=sql.Literal([place / count for place in range(1, count)]),
        key=sql.Identifier(parent.key),
        table=sql.Identifier(parent.table),
        sample=_sample(expected),
    )
    with connection.transaction():
        return [text for _, text in connection.execute(statement)]
