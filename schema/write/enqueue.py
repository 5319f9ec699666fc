"""Enqueues a session: its row, its groups with slots and environ, its kernels with their allocations, set-based.

The number of statements depends on neither groups nor kernels: one each for the references, the sessions it depends on,
the session, the groups, their slots and environ, the kernels, their allocations and the dependencies, and two for
bootstrap scripts; those with nothing to write are left out. With the caller's BEGIN and COMMIT it is 12 round trips.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

from sqlalchemy import Connection, text

from schema.errors import SchemaError
from schema.identity import BootstrapScriptRevisionID, KernelGroupID, KernelGroupRole, SessionID
from schema.spec.problems import Problem, SpecError
from schema.spec.session import SessionSpec
from schema.write.resolve import ImageName, ResolvedImage, resolve, session_references
from schema.write.rows import SessionRows, session_rows
from schema.write.scripts import store_scripts
from schema.write.secrecy import hidden_parameters
from schema.write.transaction import require_transaction

_RowT = TypeVar("_RowT")


class SessionConflictError(SchemaError):
    """The session is there already."""

    default_hint = "It may have been enqueued before: look at that one before you enqueue another."


@dataclass(frozen=True)
class EnqueuedSession:
    """A session as it was written, not yet committed."""

    id: SessionID
    groups: Mapping[KernelGroupRole, KernelGroupID]
    kernels: int
    rows: SessionRows


# Waits for a transaction that is inserting the same session; when that commits, nothing is inserted here.
_INSERT_SESSION = text(
    """
    INSERT INTO sessions (id, name, session_type, cluster_mode, cluster_size, priority, domain_name, group_id,
                          user_uuid, access_key, scaling_group_name, requested_starts_at, batch_timeout)
    VALUES (coalesce(CAST(:id AS uuid), uuid_generate_v7()), :name, :session_type, :cluster_mode, :cluster_size,
            :priority, :domain_name, :group_id, :user_uuid, :access_key, :scaling_group_name, :requested_starts_at,
            :batch_timeout_sec)
    ON CONFLICT DO NOTHING
    RETURNING id
    """
)

_LOCK_DEPENDENCIES = text("SELECT id FROM sessions WHERE id = ANY(:ids) ORDER BY id FOR KEY SHARE")

_INSERT_GROUPS = text(
    """
    INSERT INTO kernel_groups (session_id, role, image_id, shmem, startup_command, preopen_ports, requested_starts_at,
                               batch_timeout_sec, bootstrap_script_revision_id)
    SELECT :session, role, image_id, shmem, startup_command, CAST(ports AS int[]), :starts_at, :timeout, script
    FROM unnest(CAST(:roles AS text[]), CAST(:images AS uuid[]), CAST(:shmems AS bigint[]), CAST(:commands AS text[]),
                CAST(:ports AS text[]), CAST(:scripts AS uuid[]))
         AS given (role, image_id, shmem, startup_command, ports, script)
    RETURNING role, id
    """
)

_INSERT_SLOTS_AND_ENVIRON = text(
    """
    WITH slot AS (
        INSERT INTO kernel_group_resource_slots (kernel_group_id, slot_name, quantity)
        SELECT kernel_group_id, slot_name, quantity
        FROM unnest(CAST(:slot_groups AS uuid[]), CAST(:slots AS text[]), CAST(:quantities AS numeric[]))
             AS given (kernel_group_id, slot_name, quantity)
    )
    INSERT INTO kernel_group_environ (kernel_group_id, key, value)
    SELECT kernel_group_id, key, value
    FROM unnest(CAST(:environ_groups AS uuid[]), CAST(:keys AS text[]), CAST(:values AS text[]))
         AS given (kernel_group_id, key, value)
    """
)

# Everything that the kernels of a role share is in the rows written before: only counts and names travel. The order
# of each list of variables is that of the keys, as every reader of a group's environ gets them.
_INSERT_KERNELS = text(
    """
    INSERT INTO kernels (session_id, session_name, session_type, cluster_mode, cluster_size, cluster_role, cluster_idx,
                         local_rank, cluster_hostname, scaling_group, domain_name, group_id, user_uuid, access_key,
                         image, image_id, architecture, registry, environ, resource_opts, preopen_ports,
                         startup_command, bootstrap_script, kernel_group_id)
    SELECT s.id, s.name, s.session_type, s.cluster_mode, s.cluster_size, g.role, number.of_role,
           given.first_rank + number.of_role - 1, g.role || number.of_role, s.scaling_group_name, s.domain_name,
           s.group_id, s.user_uuid, s.access_key, given.image, g.image_id, given.architecture, given.registry,
           variables.entries,
           CASE WHEN g.shmem IS NULL THEN '{}' ELSE jsonb_build_object('shmem', g.shmem) END, g.preopen_ports,
           g.startup_command, b.script, g.id
    FROM unnest(CAST(:groups AS uuid[]), CAST(:replicas AS int[]), CAST(:first_ranks AS int[]),
                CAST(:images AS text[]), CAST(:architectures AS text[]), CAST(:registries AS text[]))
         AS given (id, replicas, first_rank, image, architecture, registry)
    JOIN kernel_groups AS g ON g.id = given.id
    JOIN sessions AS s ON s.id = g.session_id
    LEFT JOIN bootstrap_script_revisions AS b ON b.id = g.bootstrap_script_revision_id
    CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT e.key || '=' || e.value FROM kernel_group_environ AS e
                     WHERE e.kernel_group_id = g.id ORDER BY e.key) AS entries
    ) AS variables
    CROSS JOIN LATERAL generate_series(1, given.replicas) AS number (of_role)
    """
)

_INSERT_ALLOCATIONS = text(
    """
    INSERT INTO resource_allocations (kernel_id, slot_name, requested)
    SELECT k.id, r.slot_name, r.quantity
    FROM kernels AS k
    JOIN kernel_group_resource_slots AS r ON r.kernel_group_id = k.kernel_group_id
    WHERE k.session_id = :session
    """
)

_INSERT_DEPENDENCIES = text(
    "INSERT INTO session_dependencies (session_id, depends_on) SELECT :session, unnest(CAST(:ids AS uuid[]))"
)


@hidden_parameters()
def enqueue(connection: Connection, spec: SessionSpec) -> EnqueuedSession:
    """Write a session in the caller's transaction; the caller commits, or rolls back after an error.

    Locks, in this order: the sessions it depends on FOR KEY SHARE, by id, then the new session's own row and name
    (an enqueue of the same session waits here until this transaction ends), bootstrap scripts FOR KEY SHARE by digest,
    then new rows only, with the shared locks of their foreign keys. That is the backfill's order, sessions before
    kernels before what refers to them. Nobody sees the session before the commit, and then all of it: a backfill that
    meets it finds its kernels linked and leaves it alone, and a purge cannot remove a session it depends on meanwhile.

    Raises:
        SpecError: something that the spec refers to is unknown or ambiguous; nothing has been written.
        SessionConflictError: the session's id, or its name among its user's sessions that have not ended, is taken.
            Nothing has been written, and the transaction can go on.
        UsageError: the connection commits each statement.
    """
    require_transaction(connection, "a session cannot be enqueued")
    images, problems = resolve(connection, session_references(spec))
    problems += _lock_dependencies(connection, spec)
    if problems:
        raise SpecError(problems, subject=f"The session {spec.name or spec.id or 'without a name'}")
    session = _insert_session(connection, spec)
    scripts = store_scripts(connection, (group.bootstrap_script for group in spec.groups))
    rows = session_rows(spec, images)
    groups = _insert_groups(connection, session, spec, rows, scripts)
    if rows.slots or rows.environ:
        connection.execute(
            _INSERT_SLOTS_AND_ENVIRON,
            {
                "slot_groups": [groups[row.role] for row in rows.slots],
                "slots": _texts(rows.slots, lambda row: row.slot_name),
                "quantities": [row.quantity for row in rows.slots],
                "environ_groups": [groups[row.role] for row in rows.environ],
                "keys": _texts(rows.environ, lambda row: row.key),
                "values": [row.value for row in rows.environ],
            },
        )
    _insert_kernels(connection, spec, groups, images)
    if rows.slots:
        connection.execute(_INSERT_ALLOCATIONS, {"session": session})
    if spec.depends_on:
        connection.execute(_INSERT_DEPENDENCIES, {"session": session, "ids": sorted(set(spec.depends_on))})
    return EnqueuedSession(session, groups, spec.cluster_size, rows)


def _lock_dependencies(connection: Connection, spec: SessionSpec) -> list[Problem]:
    if not spec.depends_on:
        return []
    wanted = sorted(set(spec.depends_on))
    found = set(connection.execute(_LOCK_DEPENDENCIES, {"ids": wanted}).scalars())
    return [
        Problem("depends_on", "field depends_on", f"there is no session {id_}") for id_ in wanted if id_ not in found
    ]


def _insert_session(connection: Connection, spec: SessionSpec) -> SessionID:
    fields = spec.model_dump(exclude={"groups", "depends_on"})
    id_ = connection.execute(_INSERT_SESSION, {**fields, "cluster_size": spec.cluster_size}).scalar_one_or_none()
    if id_ is None:
        taken = [f"the id {spec.id}"] if spec.id else []
        # Without a user a name is nobody's, and any number of sessions may have it.
        if spec.name and spec.user_uuid:
            taken.append(f"the name {spec.name!r} of user {spec.user_uuid}, which has not ended")
        raise SessionConflictError(f"there is already a session with {' or one with '.join(taken)}")
    return SessionID(int=id_.int)


def _insert_groups(
    connection: Connection,
    session: SessionID,
    spec: SessionSpec,
    rows: SessionRows,
    scripts: Mapping[str | None, BootstrapScriptRevisionID],
) -> dict[KernelGroupRole, KernelGroupID]:
    found = connection.execute(
        _INSERT_GROUPS,
        {
            "session": session,
            "starts_at": spec.requested_starts_at,
            "timeout": spec.batch_timeout_sec,
            "roles": _texts(rows.groups, lambda row: row.role),
            "images": [row.image_id for row in rows.groups],
            "shmems": [row.shmem for row in rows.groups],
            "commands": [row.startup_command for row in rows.groups],
            # An array of arrays must be rectangular, so each list travels as text.
            "ports": [f"{{{','.join(map(str, row.preopen_ports))}}}" for row in rows.groups],
            "scripts": [scripts.get(group.bootstrap_script) for group in spec.groups],
        },
    )
    return {KernelGroupRole(role): KernelGroupID(int=id_.int) for role, id_ in found}


def _insert_kernels(
    connection: Connection,
    spec: SessionSpec,
    groups: Mapping[KernelGroupRole, KernelGroupID],
    images: Mapping[ImageName, ResolvedImage],
) -> None:
    connection.execute(
        _INSERT_KERNELS,
        {
            "groups": [groups[group.role] for group in spec.groups],
            "replicas": [group.replicas for group in spec.groups],
            "first_ranks": [0, *accumulate(group.replicas for group in spec.groups)][:-1],
            "images": [group.image for group in spec.groups],
            "architectures": [group.architecture for group in spec.groups],
            "registries": [images[ImageName(group.image, group.architecture)].registry for group in spec.groups],
        },
    )


def _texts(rows: Iterable[_RowT], field: Callable[[_RowT], Any]) -> list[str]:
    # The driver adapts by exact type: a subclass of str would be looked up at every value.
    return [str(field(row)) for row in rows]
