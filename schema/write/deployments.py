"""Deployment revisions: stored under the next number of their endpoint, and read back as the very spec they were."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, text

from schema.errors import SchemaError
from schema.identity import DeploymentRevisionID, EndpointID
from schema.models import (
    BootstrapScriptRevision,
    DeploymentRevision,
    DeploymentRevisionEnviron,
    DeploymentRevisionResourceSlot,
)
from schema.quantity import parse_slot_quantity
from schema.spec.draft import RevisionSpec, RuntimeVariant
from schema.spec.generator import GeneratedRevision
from schema.spec.merge import Entry
from schema.spec.problems import SpecError
from schema.write.resolve import ImageName, resolve, revision_references
from schema.write.scripts import store_scripts
from schema.write.secrecy import hidden_parameters
from schema.write.transaction import require_transaction


class UnknownEndpointError(SchemaError):
    """There is no endpoint of that id."""


class UnknownRevisionError(SchemaError):
    """There is no deployment revision of that id."""


@dataclass(frozen=True)
class StoredRevision:
    """Where a revision was stored."""

    id: DeploymentRevisionID
    number: int
    """Counts from 1 within the endpoint."""


_COPIED = (
    "image",
    "architecture",
    "shmem",
    "startup_command",
    "cluster_mode",
    "cluster_size",
    "model_definition_path",
)
"""Fields whose column holds the value as it is."""

_LOCK_ENDPOINT = text("SELECT id FROM endpoints WHERE id = :endpoint FOR NO KEY UPDATE")
_NEXT_NUMBER = text(
    "SELECT coalesce(max(revision_number), 0) + 1 FROM deployment_revisions WHERE endpoint_id = :endpoint"
)

# unnest and not a VALUES list: one statement text, whatever the number of rows.
_INSERT_SLOTS = text(
    """
    INSERT INTO deployment_revision_resource_slots (revision_id, slot_name, quantity)
    SELECT :id, slot_name, quantity
    FROM unnest(CAST(:names AS text[]), CAST(:quantities AS numeric[])) AS given (slot_name, quantity)
    """
)
_INSERT_ENVIRON = text(
    """
    INSERT INTO deployment_revision_environ (revision_id, key, value)
    SELECT :id, key, value FROM unnest(CAST(:keys AS text[]), CAST(:values AS text[])) AS given (key, value)
    """
)


@hidden_parameters()
def store_revision(connection: Connection, endpoint_id: EndpointID, generated: GeneratedRevision) -> StoredRevision:
    """Store a revision under the endpoint's next number, in the caller's transaction.

    Locks, in this order: the endpoint FOR NO KEY UPDATE, so that two revisions of one endpoint get two numbers (the
    second waits until the first is committed; sessions and routings that refer to the endpoint don't wait), bootstrap
    scripts FOR KEY SHARE, then the shared locks of the foreign keys.

    Raises:
        SpecError: an image or slot is unknown or ambiguous; nothing has been written.
        UnknownEndpointError: there is no such endpoint.
        UsageError: the connection commits each statement.
    """
    require_transaction(connection, "a revision cannot be stored")
    spec = generated.spec
    asked: dict[tuple[str, ...], str | None] = {("image",): spec.image, ("architecture",): spec.architecture}
    asked |= {("resource_slots", slot): None for slot in spec.resource_slots}
    images, problems = resolve(
        connection,
        revision_references({path: Entry(value, generated.sources[path]) for path, value in asked.items()}),
    )
    if problems:
        raise SpecError(problems, subject=f"The {spec.runtime_variant} revision")
    if connection.execute(_LOCK_ENDPOINT, {"endpoint": endpoint_id}).one_or_none() is None:
        raise UnknownEndpointError(f"there is no endpoint {endpoint_id}")
    # A statement after the lock: its snapshot has the revision of whoever held the lock before.
    number: int = connection.execute(_NEXT_NUMBER, {"endpoint": endpoint_id}).scalar_one()
    scripts = store_scripts(connection, [spec.bootstrap_script])
    row: dict[str, Any] = {
        "endpoint_id": endpoint_id,
        "revision_number": number,
        "image_id": images[ImageName(spec.image, spec.architecture)].id,
        "runtime_variant": spec.runtime_variant.value,
        "bootstrap_script_revision_id": scripts.get(spec.bootstrap_script),
        "preopen_ports": list(spec.preopen_ports),
        **{field: getattr(spec, field) for field in _COPIED},
    }
    id_ = connection.execute(insert(DeploymentRevision).values(row).returning(DeploymentRevision.id)).scalar_one()
    slots, environ = spec.resource_slots, spec.environ
    connection.execute(_INSERT_SLOTS, {"id": id_, "names": [*map(str, slots)], "quantities": [*slots.values()]})
    if environ:
        connection.execute(_INSERT_ENVIRON, {"id": id_, "keys": [*map(str, environ)], "values": [*environ.values()]})
    return StoredRevision(id_, number)


def load_revision(connection: Connection, revision_id: DeploymentRevisionID) -> RevisionSpec:
    """Read a revision back as the spec it was stored from.

    Raises:
        UnknownRevisionError: there is no such revision.
    """
    revision, script = DeploymentRevision.__table__, BootstrapScriptRevision.__table__
    slot, variable = DeploymentRevisionResourceSlot.__table__, DeploymentRevisionEnviron.__table__
    row = connection.execute(
        select(revision, script.c.script).select_from(revision.outerjoin(script)).where(revision.c.id == revision_id)
    ).one_or_none()
    if row is None:
        raise UnknownRevisionError(f"there is no deployment revision {revision_id}")
    slots = connection.execute(select(slot.c.slot_name, slot.c.quantity).where(slot.c.revision_id == revision_id))
    environ = connection.execute(select(variable.c.key, variable.c.value).where(variable.c.revision_id == revision_id))
    return RevisionSpec(
        runtime_variant=RuntimeVariant(row.runtime_variant),
        # Read back, a numeric(24,6) has six digits after the point.
        resource_slots={name: parse_slot_quantity(quantity) for name, quantity in slots},
        environ={key: value for key, value in environ},  # noqa: C416 - a Row is no pair to mypy
        bootstrap_script=row.script,
        preopen_ports=tuple(row.preopen_ports),
        **{field: getattr(row, field) for field in _COPIED},
    )
