"""Removes ended sessions, in the order that the database demands: kernels, slots, groups, session; in batches.

A session stays, and is named with the reason, when a part of it is live, when another session depends on it, or when
something refers to it that only its owner may remove.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import psycopg
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from schema.errors import UsageError
from schema.identity import SessionID
from schema.models.status import TERMINAL_KERNEL_STATUSES, TERMINAL_SESSION_STATUSES
from schema.write.transaction import require_transaction

RETRIED: Final = frozenset({"40001", "40P01", "55P03"})
"""SQLSTATEs after which a batch is tried again: serialization, deadlock, lock timeout."""

ATTEMPTS: Final = 5

_LOCK_TIMEOUT = "55P03"
# A RESTRICT has a code of its own, which PostgreSQL 18 uses where 17 and older say foreign key violation.
_KEEPING = frozenset({"23001", "23503", _LOCK_TIMEOUT})


class Reason(StrEnum):
    """Why a session stays."""

    BUSY = "busy"
    """Another transaction has it or a part of it locked; a later run may find it free."""
    LIVE_KERNEL = "live kernel"
    DEPENDED_ON = "depended on"
    FOREIGN_KERNEL = "foreign kernel"
    """A kernel of another session belongs to one of its groups."""
    REFERRED_TO = "referred to"
    """A table that this package doesn't know refers to it."""


_PASSING: Final = frozenset({Reason.DEPENDED_ON, Reason.FOREIGN_KERNEL})
"""Reasons that end when another session goes."""


@dataclass(frozen=True)
class Blocked:
    """A session that stays, and what keeps it."""

    session: SessionID
    reason: Reason
    detail: str


@dataclass(frozen=True)
class Purged:
    """What a batch removed, or in a dry run would."""

    sessions: tuple[SessionID, ...] = ()
    kernels: int = 0
    slots: int = 0
    groups: int = 0
    blocked: tuple[Blocked, ...] = ()
    """The candidates that stay."""
    last: SessionID | None = None
    """Where the next batch goes on; None when this was the last."""


@dataclass
class PurgeRun:
    """What a whole run removed."""

    sessions: int = 0
    kernels: int = 0
    slots: int = 0
    groups: int = 0
    blocked: list[Blocked] = field(default_factory=list)
    """As the last look at each of them found it."""


_ENDED = [status.value for status in TERMINAL_SESSION_STATUSES]
_ENDED_KERNEL = [status.value for status in TERMINAL_KERNEL_STATUSES]

# From the youngest id to the oldest: ids are time-ordered, so that a session is met before those it depends on.
_SEE = text(
    """
    SELECT id FROM sessions
    WHERE status = ANY(CAST(:ended AS text[])) AND terminated_at < :before
      AND (CAST(:after AS uuid) IS NULL OR id < :after)
    ORDER BY id DESC LIMIT :limit
    """
)

# Taken by the deletions anyway. Taken first, a lock on a whole table (an ALTER, a CREATE INDEX) is waited for once, and
# what is waited for later is a row, which keeps one session.
_LOCK_TABLES = text("LOCK TABLE sessions, kernels, kernel_groups, kernel_group_resource_slots IN ROW EXCLUSIVE MODE")

_LOCK = text(
    """
    SELECT id FROM sessions
    WHERE id = ANY(CAST(:ids AS uuid[])) AND status = ANY(CAST(:ended AS text[]))
    ORDER BY id FOR UPDATE SKIP LOCKED
    """
)

_STILL_THERE = text("SELECT id FROM sessions WHERE id = ANY(CAST(:ids AS uuid[]))")

# Read after the lock: whoever wants to add a kernel, a group or a dependency waits for it, and kernels never leave a
# terminal status.
_BLOCKERS = text(
    """
    SELECT k.session_id AS session, 'live kernel' AS reason, CAST(NULL AS uuid) AS dependent,
           'its kernel ' || k.id || ' is ' || k.status AS detail
    FROM kernels AS k
    WHERE k.session_id = ANY(CAST(:ids AS uuid[])) AND k.status <> ALL(CAST(:ended AS text[]))
    UNION ALL
    SELECT g.session_id, 'foreign kernel', k.session_id,
           'kernel ' || k.id || ' of session ' || k.session_id || ' belongs to its group ' || g.role
    FROM kernel_groups AS g JOIN kernels AS k ON k.kernel_group_id = g.id
    WHERE g.session_id = ANY(CAST(:ids AS uuid[])) AND k.session_id <> g.session_id
    UNION ALL
    SELECT d.depends_on, 'depended on', d.session_id,
           'session ' || d.session_id || ', which is ' || s.status || ', depends on it'
    FROM session_dependencies AS d JOIN sessions AS s ON s.id = d.session_id
    WHERE d.depends_on = ANY(CAST(:ids AS uuid[]))
    ORDER BY session, detail
    """
)

_COUNT = text(
    """
    SELECT (SELECT count(*) FROM kernels WHERE session_id = ANY(CAST(:ids AS uuid[]))),
           (SELECT count(*) FROM kernel_group_resource_slots AS r JOIN kernel_groups AS g ON g.id = r.kernel_group_id
            WHERE g.session_id = ANY(CAST(:ids AS uuid[]))),
           (SELECT count(*) FROM kernel_groups WHERE session_id = ANY(CAST(:ids AS uuid[])))
    """
)

# Kernels and slots RESTRICT their group, groups and kernels their session.
_DELETES = (
    text("DELETE FROM kernels WHERE session_id = ANY(CAST(:ids AS uuid[]))"),
    text(
        "DELETE FROM kernel_group_resource_slots AS r USING kernel_groups AS g"
        " WHERE g.id = r.kernel_group_id AND g.session_id = ANY(CAST(:ids AS uuid[]))"
    ),
    text("DELETE FROM kernel_groups WHERE session_id = ANY(CAST(:ids AS uuid[]))"),
    text("DELETE FROM sessions WHERE id = ANY(CAST(:ids AS uuid[]))"),
)


def purge_batch(
    connection: Connection,
    terminated_before: datetime,
    *,
    limit: int = 500,
    after: SessionID | None = None,
    dry_run: bool = False,
    gone: Collection[SessionID] = frozenset(),
) -> Purged:
    """Remove up to `limit` sessions that ended before a moment, in the caller's transaction; the caller commits.

    Locks, in this order: the four tables as a deletion does (ROW EXCLUSIVE, which stops no reader or writer of rows);
    the sessions FOR UPDATE, where one that is locked is left out and not waited for; then
    kernels, slots, groups and what CASCADEs from them as they are deleted. Sessions before kernels is the backfill's
    order and the enqueue's. A concurrent writer who wants to refer to one of the sessions waits until this transaction
    ends, and is refused by its foreign key then. A kernel that another transaction has locked is waited for, as long as
    the connection's lock_timeout allows; its session stays then.

    Args:
        connection: in a transaction, READ COMMITTED.
        terminated_before: sessions that ended at this moment or later stay, as do those without such a moment; with
            its offset, for without one it would be a moment of whatever time zone the connection is set to.
        limit: candidates to look at, at least one.
        after: where the batch before ended; sessions go from the youngest id to the oldest.
        dry_run: lock and remove nothing.
        gone: in a dry run, what the batches before would have removed.

    Raises:
        UsageError: the connection commits each statement, the moment has no offset, or the limit is below one.
    """
    if terminated_before.tzinfo is None:
        raise UsageError(f"{terminated_before} has no offset", hint="Give it one, such as tzinfo=UTC.")
    if limit < 1:
        raise UsageError(f"a batch has at least one session, not {limit}")
    require_transaction(connection, "sessions cannot be removed")
    if not dry_run:
        connection.execute(_LOCK_TABLES)
    seen = [
        SessionID(int=id_.int)
        for id_ in connection.execute(
            _SEE, {"ended": _ENDED, "before": terminated_before, "after": after, "limit": limit}
        ).scalars()
    ]
    last = seen[-1] if len(seen) == limit else None
    if dry_run:
        done = _foresee(connection, [id_ for id_ in seen if id_ not in gone], gone)
    else:
        done = _remove(connection, seen)
    return replace(done, last=last)


def purge(
    engine: Engine,
    terminated_before: datetime,
    *,
    batch: int = 500,
    dry_run: bool = False,
    advance: Callable[[Purged], None] = lambda _: None,
) -> PurgeRun:
    """Remove every session that ended before a moment, each batch in a transaction of its own.

    What a run leaves, because it was interrupted or because something kept it, the next one finds again. Where
    sessions were kept by sessions that this run then removed, it makes another pass.

    Args:
        engine: where the one connection comes from.
        terminated_before: as in `purge_batch`.
        batch: sessions per transaction.
        dry_run: remove nothing.
        advance: told each batch after its commit.
    """
    run = PurgeRun()
    gone: set[SessionID] = set()
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as connection:
        while True:
            before_pass = run.sessions
            run.blocked = []
            after: SessionID | None = None
            while True:
                done = _attempt(connection, terminated_before, limit=batch, after=after, dry_run=dry_run, gone=gone)
                if dry_run:
                    gone.update(done.sessions)
                run.sessions += len(done.sessions)
                run.kernels += done.kernels
                run.slots += done.slots
                run.groups += done.groups
                run.blocked += done.blocked
                advance(done)
                after = done.last
                if after is None:
                    break
            if run.sessions == before_pass or not any(one.reason in _PASSING for one in run.blocked):
                return run


def _attempt(connection: Connection, terminated_before: datetime, **settings: Any) -> Purged:
    attempt = 1
    while True:
        try:
            with connection.begin():
                return purge_batch(connection, terminated_before, **settings)
        except DBAPIError as error:
            if _state(error) not in RETRIED or attempt == ATTEMPTS:
                raise
        attempt += 1
        time.sleep(0.02 * 2**attempt * random.uniform(0.5, 1))  # noqa: S311 - jitter


def _foresee(connection: Connection, ids: list[SessionID], gone: Collection[SessionID]) -> Purged:
    blocked = _find_blockers(connection, ids, gone)
    doomed = [id_ for id_ in ids if id_ not in blocked]
    kernels, slots, groups = connection.execute(_COUNT, {"ids": _array(doomed)}).one()
    return Purged(tuple(doomed), kernels, slots, groups, tuple(blocked.values()))


def _remove(connection: Connection, ids: list[SessionID]) -> Purged:
    """Remove the sessions together; when something keeps one of them after all, each by itself."""
    if not ids:
        return Purged()
    try:
        return _remove_together(connection, ids)
    except DBAPIError as error:
        if _state(error) not in _KEEPING:
            raise
        if len(ids) == 1:
            return Purged(blocked=(_refused(ids[0], error),))
    parts = [_remove(connection, [id_]) for id_ in ids]
    return Purged(
        tuple(id_ for part in parts for id_ in part.sessions),
        sum(part.kernels for part in parts),
        sum(part.slots for part in parts),
        sum(part.groups for part in parts),
        tuple(one for part in parts for one in part.blocked),
    )


def _remove_together(connection: Connection, ids: list[SessionID]) -> Purged:
    # Lock and deletion in one subtransaction: in two, every row would need a multixact for the lock and its deletion.
    with connection.begin_nested():
        locked = {
            SessionID(int=id_.int) for id_ in connection.execute(_LOCK, {"ids": _array(ids), "ended": _ENDED}).scalars()
        }
        busy = _find_busy(connection, [id_ for id_ in ids if id_ not in locked])
        free = [id_ for id_ in ids if id_ in locked]
        blocked = _find_blockers(connection, free, ())
        doomed = [id_ for id_ in free if id_ not in blocked]
        kernels = slots = groups = 0
        if doomed:
            parameters = {"ids": _array(doomed)}
            kernels, slots, groups, _ = (connection.execute(each, parameters).rowcount for each in _DELETES)
    return Purged(tuple(doomed), kernels, slots, groups, (*busy, *blocked.values()))


def _find_blockers(
    connection: Connection, ids: Sequence[SessionID], gone: Collection[SessionID]
) -> dict[SessionID, Blocked]:
    """Find what keeps each session."""
    blocked: dict[SessionID, Blocked] = {}
    kept_by: defaultdict[SessionID, list[Blocked]] = defaultdict(list)
    for row in connection.execute(_BLOCKERS, {"ids": _array(ids), "ended": _ENDED_KERNEL}):
        session = SessionID(int=row.session.int)
        found = Blocked(session, Reason(row.reason), row.detail)
        if row.dependent is None:
            blocked.setdefault(session, found)
        elif row.dependent not in gone:
            kept_by[SessionID(int=row.dependent.int)].append(found)
    # A session that stays keeps what it depends on, and whose groups its kernels belong to.
    candidates = set(ids)
    staying = [*blocked, *(id_ for id_ in kept_by if id_ not in candidates)]
    while staying:
        for found in kept_by.get(staying.pop(), ()):
            if found.session not in blocked:
                blocked[found.session] = found
                staying.append(found.session)
    return {id_: blocked[id_] for id_ in ids if id_ in blocked}


def _find_busy(connection: Connection, ids: Sequence[SessionID]) -> list[Blocked]:
    """Tell those that somebody has locked from those that another purge has removed since they were seen."""
    if not ids:
        return []
    there = set(connection.execute(_STILL_THERE, {"ids": _array(ids)}).scalars())
    return [Blocked(id_, Reason.BUSY, "another transaction works on it") for id_ in ids if id_ in there]


def _refused(id_: SessionID, error: DBAPIError) -> Blocked:
    assert isinstance(error.orig, psycopg.Error)
    if error.orig.sqlstate == _LOCK_TIMEOUT:
        return Blocked(id_, Reason.BUSY, "another transaction works on a part of it")
    said = error.orig.diag
    return Blocked(id_, Reason.REFERRED_TO, f"{said.constraint_name} on {said.table_name} keeps a part of it")


def _array(ids: Collection[SessionID]) -> str:
    # Written here: the driver adapts a list one UUID at a time, which would take a tenth of a batch.
    return f"{{{','.join([id_.hex for id_ in ids])}}}"


def _state(error: DBAPIError) -> str | None:
    return error.orig.sqlstate if isinstance(error.orig, psycopg.Error) else None
