"""The backfill as one writes it by hand with an ORM: session by session, row by row, a commit now and then."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session as OrmSession

from schema.environ import is_environ_key
from schema.errors import InvalidValueError
from schema.models.kernel_groups import KernelGroup, KernelGroupEnviron, KernelGroupResourceSlot
from schema.models.kernels import Kernel, ResourceAllocation
from schema.models.resources import ResourceSlotType
from schema.models.sessions import Session
from schema.quantity import parse_byte_size, parse_slot_quantity

COMMIT_EVERY = 100


def orm_loop(url: str, keys: Sequence[Any]) -> None:
    """Give the sessions their groups by the rules of docs/backfill.md; what is unreadable is left out."""
    with OrmSession(sa.create_engine(url, poolclass=sa.NullPool)) as orm:
        slot_names = set(orm.scalars(sa.select(ResourceSlotType.slot_name)))
        for number, key in enumerate(keys, start=1):
            session = orm.get_one(Session, key)
            roles: dict[str, list[Any]] = {}
            for kernel in orm.scalars(sa.select(Kernel).where(Kernel.session_id == key)):
                roles.setdefault(kernel.cluster_role, []).append(kernel)
            for role, members in roles.items():
                _group(orm, session, role, members, slot_names)
            if number % COMMIT_EVERY == 0:
                orm.commit()
        orm.commit()


def _group(orm: OrmSession, session: Any, role: str, members: list[Any], slot_names: set[str]) -> None:
    group = orm.scalar(sa.select(KernelGroup).where(KernelGroup.session_id == session.id, KernelGroup.role == role))
    if group is None:
        late = datetime.max.replace(tzinfo=UTC)
        first = min(members, key=lambda k: (k.cluster_idx, k.local_rank, k.created_at or late, k.id))
        asked = _entries(session.options)
        entry = asked.get(role)
        group = KernelGroup(
            session_id=session.id,
            role=role,
            image_id=first.image_id,
            startup_command=first.startup_command,
            preopen_ports=first.preopen_ports or [],
            shmem=_quantity(parse_byte_size, _object(first.resource_opts).get("shmem")),
            requested_starts_at=session.requested_starts_at,
            batch_timeout_sec=session.batch_timeout,
        )
        execution = _object(entry and entry.get("execution_spec"))
        if entry is not None:
            group.requested_starts_at = _moment(execution.get("starts_at"))
            group.batch_timeout_sec = _seconds(execution.get("batch_timeout_sec"))
        orm.add(group)
        orm.flush()
        for name, quantity in _slots(orm, first, execution, slot_names).items():
            orm.add(KernelGroupResourceSlot(kernel_group_id=group.id, slot_name=name, quantity=quantity))
        for name, value in _environ(first, session, holds_groups=bool(asked)).items():
            orm.add(KernelGroupEnviron(kernel_group_id=group.id, key=name, value=value))
    for kernel in members:
        if kernel.kernel_group_id is None:
            kernel.kernel_group_id = group.id


def _entries(options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    listed = _object(options).get("kernel_groups")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("role"), str):
            found.setdefault(entry["role"], entry)
    return found


def _slots(orm: OrmSession, kernel: Any, execution: Mapping[str, Any], known: set[str]) -> dict[str, Decimal]:
    held = orm.scalars(sa.select(ResourceAllocation).where(ResourceAllocation.kernel_id == kernel.id)).all()
    if held:
        return {str(row.slot_name): row.requested for row in held if not row.requested.is_nan() and row.requested > 0}
    listed = _object(execution.get("resource_input")).get("resources")
    listed = execution.get("resources") if listed is None else listed
    found: dict[str, Decimal | None] = {}
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and entry.get("resource_type") in known:
            found[entry["resource_type"]] = _quantity(parse_slot_quantity, entry.get("quantity"))
    return {name: quantity for name, quantity in found.items() if quantity}


def _environ(kernel: Any, session: Any, *, holds_groups: bool) -> dict[str, str]:
    if kernel.environ:
        pairs = [entry.split("=", 1) for entry in kernel.environ if entry is not None and "=" in entry]
        return {key: value for key, value in pairs if is_environ_key(key)}
    if holds_groups:
        return {}
    said = _object(session.environ)
    return {key: _text(value) for key, value in said.items() if is_environ_key(key)}


def _text(value: Any) -> str:
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return str(value)
    return json.dumps(value)


def _quantity(parse: Any, value: Any) -> Any:
    try:
        return None if value is None else parse(Decimal(str(value)) if isinstance(value, float) else value)
    except InvalidValueError:
        return None


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", value):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _seconds(value: Any) -> int | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if number and value >= 0 and value == int(value) else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
