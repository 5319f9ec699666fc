"""Writes a seeded history into a database: one transaction for the cluster, then one per block of sessions."""

import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from schema.errors import DatabaseError, UsageError
from schema.seed.block import Block, History, make_block
from schema.seed.cluster import Cluster, Image, Row, cluster, domain_name, images, shared_rows, tenant_rows
from schema.seed.copytext import BLOCK_TABLES, COLUMNS
from schema.seed.drafting import Pools
from schema.seed.profile import Profile

SEED_MAX: Final = 2**63 - 1

_LATER_TABLES: Final = frozenset({"system_session_environ"})
"""Tables that a revision after the first one brings; a database before it is seeded without them."""


@dataclass(frozen=True)
class SeedReport:
    """What was written."""

    rows: Mapping[str, int]
    """Rows added, by table."""
    elapsed_s: float


def seed(
    connection: psycopg.Connection,
    *,
    sessions: int,
    seed: int = 0,
    profile: Profile = Profile.ERAS,
    progress: Callable[[int], None] | None = None,
) -> SeedReport:
    """Fill a database with a legacy cluster: a tenant of the seed's own, and its sessions in the order of their age.

    The same `sessions`, `seed` and `profile` give the same rows on every machine. Another seed adds another tenant.
    The database may be at any revision that has the cluster tables; `kernels.kernel_group_id` stays NULL.

    Args:
        connection: outside of a transaction; each block of sessions is committed.
        sessions: how many; 0 writes the cluster alone.
        seed: 0 to 2**63 - 1.
        profile: with or without bad entries.
        progress: told the number of sessions of each block when it is committed.

    Raises:
        UsageError: a number out of range.
        DatabaseError: the seed is in the database already, whole or in part, or tables are missing; nothing is written.
    """
    if sessions < 0:
        raise UsageError(f"{sessions} sessions cannot be made", hint="Give 0 or more.")
    if not 0 <= seed <= SEED_MAX:
        raise UsageError(f"the seed {seed} is out of range", hint=f"Give 0 to {SEED_MAX}.")
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise UsageError("the connection is inside a transaction", hint="Seeding commits its blocks one by one.")
    started = time.monotonic()
    rows = dict.fromkeys(COLUMNS, 0)
    with connection.transaction():
        tenant = _write_cluster(connection, seed, rows)
    pools = Pools.of(seed, tenant)
    with closing(_blocks(History(seed, profile, sessions), pools)) as blocks:
        for block in blocks:
            _write_block(connection, block)
            for table, lines in block.items():
                rows[table] += len(lines)
            if progress is not None:
                progress(len(block["sessions"]))
    with connection.transaction():
        # What autovacuum would get to in a minute; until then the planner takes the tables for empty. Its lock stops
        # neither readers nor writers.
        connection.execute(sql.SQL("ANALYZE {}").format(sql.SQL(", ").join(map(sql.Identifier, BLOCK_TABLES))))
    return SeedReport(rows, time.monotonic() - started)


def _blocks(history: History, pools: Pools) -> Generator[Block, None, None]:
    """The blocks in order; the next one is made while the server takes in the current one."""
    with ThreadPoolExecutor(max_workers=1) as ahead:
        following = None
        for number in range(history.blocks):
            current = following or ahead.submit(make_block, history, pools, number)
            following = ahead.submit(make_block, history, pools, number + 1) if number + 1 < history.blocks else None
            yield current.result()


def _write_cluster(connection: psycopg.Connection, seed: int, rows: dict[str, int]) -> Cluster:
    """Write what sessions stand on, in the caller's transaction.

    The domain comes first: it is the seed's mark. A second run of the same seed waits on its key until this
    transaction has ended, and then finds it taken. Rows that all seeds share are inserted where missing, by every
    seed in the same order, so two seeds wait for one another but never in a circle.
    """
    present = _present_tables(connection)
    missing = [table for table in COLUMNS if table not in present and table not in _LATER_TABLES]
    if missing:
        raise DatabaseError(
            f"the database lacks {len(missing)} tables of a cluster, {missing[0]} among them",
            hint="Run `schemactl upgrade` before `schemactl seed`.",
        )
    tenant = tenant_rows(seed, cluster(seed, images()))
    rows["domains"] = _insert_missing(connection, "domains", tenant.pop("domains"))
    if rows["domains"] == 0:
        raise DatabaseError(
            f"seed {seed} is in this database already: it has the domain {domain_name(seed)}",
            hint="Give another --seed to add more sessions, or start with an empty database.",
        )
    for table, values in shared_rows(images()).items():
        if table in present:
            rows[table] = _insert_missing(connection, table, values)
    for table, values in tenant.items():
        with connection.cursor() as cursor, cursor.copy(_copy_statement(table)) as copy:
            for row in values:
                copy.write_row(row)
        rows[table] = len(values)
    return cluster(seed, _known_images(connection))


def _present_tables(connection: psycopg.Connection) -> set[str]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute("SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL", [[*COLUMNS]])
        return {name for (name,) in cursor}


def _insert_missing(connection: psycopg.Connection, table: str, values: list[Row]) -> int:
    """Insert the rows whose keys are free; return their number."""
    columns = COLUMNS[table]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
    )
    with connection.cursor() as cursor:
        cursor.executemany(statement, values)
        return cursor.rowcount


def _known_images(connection: psycopg.Connection) -> tuple[Image, ...]:
    """The images with the ids that this database has for them, which may be older than the seed."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute("SELECT registry, project, name, tag, architecture, id::text FROM images")
        ids = {tuple(key): image_id for *key, image_id in cursor}
    return tuple(
        replace(image, id=ids[image.registry, image.project, image.name, image.tag, image.architecture])
        for image in images()
    )


def _write_block(connection: psycopg.Connection, block: Block) -> None:
    """Write one block in a transaction of its own, parents before children.

    Rows are only added: besides them it locks the cluster rows that they refer to, FOR KEY SHARE, which stops nobody
    but who deletes one or changes its key. Other connections see the whole block or nothing of it.
    """
    with connection.transaction(), connection.cursor() as cursor:
        for table in BLOCK_TABLES:
            if lines := block[table]:
                with cursor.copy(_copy_statement(table)) as copy:
                    copy.write("".join(lines))


def _copy_statement(table: str) -> sql.Composed:
    columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS[table]))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), columns)
