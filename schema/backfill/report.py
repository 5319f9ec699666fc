"""What the ledger says about a backfill: how far it is, who works on it, and what it could not carry over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row

from schema.backfill import batch, claims, ledger
from schema.backfill.job import Job, Row
from schema.models.status import ChunkState, RunPhase, RunState


@dataclass(frozen=True)
class Worker:
    """Who holds a chunk, and until when without another batch."""

    owner: str
    lease_expires_at: datetime | None
    batch_size: int | None
    """Of its last batch."""
    rate: float | None
    """Parent rows per second lately, rests included."""
    held: str | None
    """What keeps it from its next batch."""


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

    phase: str
    """`batches`, `sweep` or `verify`."""
    chunks: int
    chunks_done: int
    """In the phase."""

    @property
    def percent(self) -> float:
        """Of the batches, 0 to 100; 100 only when the run is complete, so verified."""
        if self.state == RunState.COMPLETE:
            return 100.0
        return min(99.9, 100.0 * self.done / self.expected) if self.expected else 0.0

    @property
    def rate(self) -> float | None:
        """Parent rows per second of all workers lately; None when nobody works, or nothing holds back batches yet."""
        rates = [worker.rate for worker in self.workers if worker.rate is not None and worker.held is None]
        return sum(rates) if rates else None

    @property
    def eta_s(self) -> float | None:
        """Seconds that the batches will take yet, at the rate of now; None when that cannot be told."""
        if self.phase != RunPhase.BATCHES or self.finished_at is not None or not self.rate:
            return None
        return max(self.expected - self.done, 0) / self.rate

    @property
    def held(self) -> Sequence[str]:
        """What holds the workers, each reason once."""
        return sorted({worker.held for worker in self.workers if worker.held})


@dataclass(frozen=True)
class Reject:
    """A row of `backfill_rejects`."""

    run_id: UUID
    parent_key: str
    kernel_id: UUID | None
    field: str
    reason: str
    raw: str | None
    """May be a secret; None unless asked for."""
    created_at: datetime


def progress(connection: Connection[Row], job: Job) -> Progress | None:
    """Tell how far the newest run of the job is; None when it never ran or the database has no ledger."""
    if not _has_ledger(connection) or (run := ledger.latest(connection, job.name)) is None:
        return None
    chunks = claims.chunks(connection, run.id)
    totals = batch.add(*(chunk.totals for chunk in chunks))
    return Progress(
        run_id=run.id,
        job=run.job,
        state=run.state,
        done=totals.get(job.parent.table, 0),
        expected=int(run.settings.get("expected", 0)),
        totals=totals,
        workers=[
            Worker(chunk.owner, chunk.lease_expires_at, chunk.batch_size, chunk.rate, chunk.held)
            for chunk in chunks
            if chunk.owner and chunk.state == ChunkState.CLAIMED
        ],
        last_error=run.last_error,
        created_at=run.created_at,
        updated_at=max([run.updated_at, *(chunk.updated_at for chunk in chunks)]),
        finished_at=run.finished_at,
        phase=run.phase,
        chunks=len(chunks),
        chunks_done=sum(chunk.is_done for chunk in chunks),
    )


def rejects(
    connection: Connection[Row], job: str, *, show_values: bool = False, limit: int | None = None
) -> list[Reject]:
    """List what the job's runs could not carry over, by run and parent row; `raw` only with `show_values`."""
    with connection.transaction(), connection.cursor(row_factory=class_row(Reject)) as cursor:
        return cursor.execute(
            sql.SQL(
                "SELECT j.run_id, coalesce(j.parent_key, j.session_id::text) AS parent_key,"
                " j.kernel_id, j.field, j.reason, {}, j.created_at"
                " FROM backfill_rejects j JOIN backfill_runs r ON r.id = j.run_id"
                " WHERE r.job = %s ORDER BY r.created_at, 2, j.id LIMIT %s"
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
        row = connection.execute(
            "SELECT EXISTS (SELECT FROM pg_attribute"
            " WHERE attrelid = to_regclass('backfill_runs') AND attname = 'phase')"
        ).fetchone()
    return row is not None and bool(row[0])
