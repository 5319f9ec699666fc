"""The ledger of chunks: who works on which key range, and how far each has come.

A claim is a lease with a fence number, not a lock of the session, so that it works behind a connection pooler. Every
function is one short transaction of its own, but for `fenced` and `advance`, which belong to the caller's.
"""

import os
import socket
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from schema.backfill.job import Row
from schema.backfill.ledger import transaction
from schema.errors import MoreWorkError
from schema.models.status import ChunkState


class LeaseLostError(MoreWorkError):
    """Another worker took over the key range; what this one had not committed was rolled back."""

    default_hint = "Nothing is lost. `schemactl backfill status` shows who goes on."


@dataclass(frozen=True)
class Chunk:
    """A row of `backfill_chunks`."""

    run_id: UUID
    number: int
    upper: str | None
    """None is no bound; a worker sets one for itself, see `worker.py`."""
    cursor: str | None
    """Text of the last key done; the lower bound before the first batch."""
    state: str
    owner: str | None
    fence: int
    lease_expires_at: datetime | None
    batch_size: int | None
    rate: float | None
    held: str | None
    totals: Mapping[str, int]
    updated_at: datetime
    desired_state: str
    """Of the run."""
    phase: str
    """Of the run."""

    @property
    def is_done(self) -> bool:
        """Whether the range is worked through."""
        return self.state == ChunkState.DONE


_CHUNK = sql.SQL(
    "c.run_id, c.number, c.upper, coalesce(c.cursor, c.lower) AS cursor, c.state, c.owner, c.fence,"
    " c.lease_expires_at, c.batch_size, c.rate, c.held, c.totals, c.updated_at, r.desired_state, r.phase"
)


def new_owner() -> str:
    """Name this worker: host, process, and a word that tells it from one that had the same number before."""
    return f"{_place()} pid {os.getpid()} {uuid.uuid4().hex[:8]}"


def chunks(connection: Connection[Row], run_id: UUID) -> list[Chunk]:
    """Return the run's chunks in order."""
    with transaction(connection), connection.cursor(row_factory=class_row(Chunk)) as cursor:
        return cursor.execute(
            sql.SQL(
                "SELECT {} FROM backfill_chunks c JOIN backfill_runs r ON r.id = c.run_id"
                " WHERE c.run_id = %s ORDER BY c.number"
            ).format(_CHUNK),
            (run_id,),
        ).fetchall()


def claim(connection: Connection[Row], run_id: UUID, owner: str, lease: timedelta) -> Chunk | None:
    """Take a chunk that nobody works on, or None when every one is done or somebody else's.

    Free are those never claimed or given back, those whose lease ran out, and those whose owner is a dead process of
    this host. A chunk whose row is locked is in the middle of a batch: skipped, whatever its lease says.
    """
    with transaction(connection):
        owners = connection.execute(
            "SELECT owner FROM backfill_chunks WHERE run_id = %s AND state = 'claimed'", (run_id,)
        ).fetchall()
    dead = [name for (name,) in owners if _is_dead(name)]
    with transaction(connection), connection.cursor(row_factory=class_row(Chunk)) as cursor:
        return cursor.execute(
            sql.SQL(
                "UPDATE backfill_chunks c SET state = 'claimed', owner = %(owner)s, fence = c.fence + 1,"
                " attempts = c.attempts + 1, lease_expires_at = clock_timestamp() + %(lease)s, held = NULL,"
                " updated_at = now()"
                " FROM backfill_runs r WHERE r.id = c.run_id AND c.run_id = %(run)s AND c.number = ("
                "  SELECT number FROM backfill_chunks WHERE run_id = %(run)s AND (state = 'pending'"
                "  OR state = 'claimed' AND (lease_expires_at < clock_timestamp() OR owner = ANY(%(dead)s)))"
                "  ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)"
                " RETURNING {}"
            ).format(_CHUNK),
            {"run": run_id, "owner": owner, "lease": lease, "dead": dead},
        ).fetchone()


def fenced(connection: Connection[Row], claimed: Chunk) -> Chunk:
    """Lock the chunk's row for this transaction and return it as it is now.

    Raises:
        LeaseLostError: somebody else has claimed it since.
    """
    with connection.cursor(row_factory=class_row(Chunk)) as cursor:
        chunk = cursor.execute(
            sql.SQL(
                "SELECT {} FROM backfill_chunks c JOIN backfill_runs r ON r.id = c.run_id"
                " WHERE c.run_id = %s AND c.number = %s AND c.owner = %s AND c.fence = %s"
                " FOR UPDATE OF c"
            ).format(_CHUNK),
            (claimed.run_id, claimed.number, claimed.owner, claimed.fence),
        ).fetchone()
    if chunk is None:
        raise _lost(claimed)
    return chunk


def advance(
    connection: Connection[Row],
    chunk: Chunk,
    *,
    cursor: str | None,
    totals: Mapping[str, int],
    lease: timedelta,
    done: bool,
    batch_size: int,
    rate: float | None,
) -> None:
    """Move the fenced chunk's cursor, set its totals and renew its lease, or close it. A None cursor stays."""
    state = ChunkState.DONE if done else ChunkState.CLAIMED
    connection.execute(
        "UPDATE backfill_chunks SET cursor = coalesce(%s, cursor), totals = %s, state = %s, attempts = 0,"
        " last_sqlstate = NULL, held = NULL, batch_size = %s, rate = coalesce(%s, rate),"
        " lease_expires_at = clock_timestamp() + %s, updated_at = clock_timestamp() WHERE run_id = %s AND number = %s",
        (cursor, Jsonb(totals), state, batch_size, rate, lease, chunk.run_id, chunk.number),
    )


def renew(connection: Connection[Row], claimed: Chunk, lease: timedelta, held: str | None) -> None:
    """Renew the lease between batches, and say what holds the next one.

    Raises:
        LeaseLostError: somebody else has claimed it since.
    """
    with transaction(connection):
        found = connection.execute(
            "UPDATE backfill_chunks SET lease_expires_at = clock_timestamp() + %s, held = %s"
            " WHERE run_id = %s AND number = %s AND owner = %s AND fence = %s AND state = 'claimed'",
            (lease, held, claimed.run_id, claimed.number, claimed.owner, claimed.fence),
        )
    if not found.rowcount:
        raise _lost(claimed)


def release(
    connection: Connection[Row], claimed: Chunk, *, error: str | None = None, sqlstate: str | None = None
) -> None:
    """Give a chunk back, so that the next worker need not wait for its lease; nothing if it is no longer ours."""
    with transaction(connection):
        connection.execute(
            "WITH freed AS ("
            " UPDATE backfill_chunks SET state = 'pending', owner = NULL, lease_expires_at = NULL, held = NULL,"
            " last_sqlstate = coalesce(%s, last_sqlstate), updated_at = now()"
            " WHERE run_id = %s AND number = %s AND owner = %s AND fence = %s AND state = 'claimed' RETURNING run_id)"
            " UPDATE backfill_runs SET last_error = coalesce(%s, last_error), updated_at = now()"
            " WHERE id IN (SELECT run_id FROM freed)",
            (sqlstate, claimed.run_id, claimed.number, claimed.owner, claimed.fence, error),
        )


def _lost(claimed: Chunk) -> LeaseLostError:
    return LeaseLostError(f"chunk {claimed.number} of run {claimed.run_id} was taken over by another worker")


def _place() -> str:
    # Containers that share a host's name have their own process numbers.
    namespace = ""
    with suppress(OSError):
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return socket.gethostname() + namespace.removeprefix("pid:")


def _is_dead(owner: str) -> bool:
    """Whether the owner is a process of this host that is gone; False when that cannot be known."""
    place, _, rest = owner.partition(" pid ")
    pid = rest.partition(" ")[0]
    if place != _place() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
