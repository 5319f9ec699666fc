"""What the ledger says about a backfill: how far it is, who works on it, and what it could not carry over."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row

from schema.backfill import ledger
from schema.backfill.job import Row
from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.models.status import RunState


@dataclass(frozen=True)
class Worker:
    """Who holds a chunk, and until when without another batch."""

    owner: str
    lease_expires_at: datetime | None


@dataclass(frozen=True)
class Progress:
    """How far the newest run of a job is."""

    run_id: UUID
    job: str
    state: str
    """`running`, `paused`, `complete` or `failed`; running means begun and not over, see `workers`."""
    done: int
    """Parent rows."""
    expected: int
    """Parent rows that there were at the start."""
    totals: Mapping[str, int]
    workers: Sequence[Worker]
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    """Of the last batch."""
    finished_at: datetime | None

    @property
    def percent(self) -> float:
        """0 to 100; 100 only when complete."""
        if self.state == RunState.COMPLETE:
            return 100.0
        return min(99.9, 100.0 * self.done / self.expected) if self.expected else 0.0


@dataclass(frozen=True)
class Reject:
    """A row of `backfill_rejects`."""

    run_id: UUID
    session_id: UUID
    kernel_id: UUID | None
    field: str
    reason: str
    raw: str | None
    """May be a secret; None unless asked for."""
    created_at: datetime


def progress(connection: Connection[Row]) -> Progress | None:
    """Tell how far the kernel-group backfill is; None when it never ran or the database has no ledger."""
    job = KernelGroups()
    if not _has_ledger(connection) or (run := ledger.latest(connection, job.name)) is None:
        return None
    chunks = ledger.chunks(connection, run.id)
    totals: Counter[str] = Counter()
    for chunk in chunks:
        totals.update(chunk.totals)
    return Progress(
        run_id=run.id,
        job=run.job,
        state=run.state,
        done=totals[job.parent.table],
        expected=int(run.settings.get("expected", 0)),
        totals=dict(totals),
        workers=[Worker(chunk.owner, chunk.lease_expires_at) for chunk in chunks if chunk.owner and not chunk.is_done],
        last_error=run.last_error,
        created_at=run.created_at,
        updated_at=max([run.updated_at, *(chunk.updated_at for chunk in chunks)]),
        finished_at=run.finished_at,
    )


def rejects(
    connection: Connection[Row], job: str, *, show_values: bool = False, limit: int | None = None
) -> list[Reject]:
    """List what the job's runs could not carry over, by run and session; `raw` only with `show_values`."""
    with connection.transaction(), connection.cursor(row_factory=class_row(Reject)) as cursor:
        return cursor.execute(
            sql.SQL(
                "SELECT j.run_id, j.session_id, j.kernel_id, j.field, j.reason, {}, j.created_at"
                " FROM backfill_rejects j JOIN backfill_runs r ON r.id = j.run_id"
                " WHERE r.job = %s ORDER BY r.created_at, j.session_id, j.id LIMIT %s"
            ).format(sql.SQL("j.raw" if show_values else "NULL AS raw")),
            (job, limit),
        ).fetchall()


def reject_counts(connection: Connection[Row], job: str) -> Mapping[str, int]:
    """Count the rejects of the job's runs by field."""
    with connection.transaction():
        return dict(
            connection.execute(
                "SELECT j.field, count(*) FROM backfill_rejects j JOIN backfill_runs r ON r.id = j.run_id"
                " WHERE r.job = %s GROUP BY j.field ORDER BY j.field",
                (job,),
            ).fetchall()
        )


def _has_ledger(connection: Connection[Row]) -> bool:
    with connection.transaction():
        row = connection.execute("SELECT to_regclass('backfill_runs') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])
