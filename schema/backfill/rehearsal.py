"""Batches that are written and rolled back: a dry run, and the one batch that a plan measures."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import psycopg
from psycopg import Connection

from schema.backfill import batch, keyset, ledger, policy
from schema.backfill.engine import Outcome
from schema.backfill.job import Job, Row
from schema.backfill.policy import Action
from schema.backfill.settings import Settings
from schema.backfill.stop import End

T = TypeVar("T")

# The keys and rows of a batch, which a plan quotes in full.
_LISTED = re.compile(r"'\{[^'}]{80,}\}'")


@dataclass(frozen=True)
class Sample:
    """What one batch took; all of it was rolled back."""

    parents: int
    seconds: float
    wal_bytes: int
    """WAL that the whole server wrote meanwhile; other writers' is in it."""
    disk_bytes: int
    """By how much the tables and their indexes grew, in whole pages."""
    written: Mapping[str, int]
    plans: Sequence[str]
    """EXPLAIN of its statements, line by line."""


def dry_run(
    connection: Connection[Row],
    job: Job,
    settings: Settings | None = None,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Write every batch as a new run would, and roll each back. The active run is left alone.

    It takes the locks of a run, one batch long each.
    """
    settings = settings or Settings()
    size = settings.batch_size or settings.batch_start
    started = time.monotonic()
    totals: Mapping[str, int] = {}
    parents = 0
    cursor: str | None = None
    upto = keyset.last(connection, job.parent)
    while True:
        written, cursor = _retried(settings, partial(_rolled_back, connection, job, settings, cursor, upto, size))
        done = written[job.parent.table]
        totals = batch.add(totals, written)
        parents += done
        advance(done)
        seconds = time.monotonic() - started
        if done < size:
            return Outcome(End.COMPLETE, None, totals, parents, seconds)
        if settings.max_time is not None and seconds >= settings.max_time.total_seconds():
            return Outcome(End.TIME, None, totals, parents, seconds)


def sample(connection: Connection[Row], job: Job, settings: Settings | None = None) -> Sample:
    """Write one batch of rows that have work left, measure it, and roll it back."""
    settings = settings or Settings()
    size = settings.batch_size or settings.batch_max
    return _retried(settings, partial(_measured, connection, job, settings, size))


def _rolled_back(
    connection: Connection[Row], job: Job, settings: Settings, cursor: str | None, upto: str | None, size: int
) -> tuple[Mapping[str, int], str | None]:
    with connection.transaction(force_rollback=True):
        batch.prepare(connection, settings)
        run_id = ledger.begin_closed(connection, job.name)
        keys = keyset.lock(connection, job.parent, cursor, upto, size)
        written = batch.write(connection, job, run_id, keys)
    return batch.add({job.parent.table: len(keys)}, written), str(keys[-1]) if keys else cursor


def _measured(connection: Connection[Row], job: Job, settings: Settings, size: int) -> Sample:
    tables = [*job.new_tables, *job.updated_tables]
    with connection.transaction(force_rollback=True):
        batch.prepare(connection, settings)
        run_id = ledger.begin_closed(connection, job.name)
        keys = keyset.lock_these(connection, job.parent, job.pending(connection, None, None, size))
        if not keys:
            return Sample(0, 0.0, 0, 0, {}, [])
        plans = [_LISTED.sub("'{...}'", line) for line in job.explain(connection, run_id, keys)]
        wal, disk = _sizes(connection, tables)
        started = time.monotonic()
        written = job.write(connection, run_id, keys)
        seconds = time.monotonic() - started
        wal_after, disk_after = _sizes(connection, tables)
    return Sample(len(keys), seconds, wal_after - wal, disk_after - disk, written, plans)


def _sizes(connection: Connection[Row], tables: Sequence[str]) -> tuple[int, int]:
    row = connection.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,"
        " (SELECT sum(pg_total_relation_size(to_regclass(quote_ident(name)))) FROM unnest(%s::text[]) AS name)::bigint",
        (tables,),
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _retried(settings: Settings, attempt: Callable[[], T]) -> T:
    """Return what `attempt`, a transaction, returns; try again, with growing pauses, after an error that may pass."""
    for failures in range(1, settings.attempts):
        try:
            return attempt()
        except psycopg.Error as error:
            if policy.action(error) not in (Action.RETRY, Action.LOCKED, Action.REREAD) or error.sqlstate is None:
                raise
        time.sleep(policy.pause_s(failures))
    return attempt()
