"""A session to be enqueued: its groups, and how many kernels each of them has."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from schema.errors import InvalidValueError
from schema.identity import EntityId, EnvironKey, GroupID, KernelGroupRole, ResourceSlotName, SessionID, UserID
from schema.spec import values
from schema.spec.documents import parse_json
from schema.spec.draft import RevisionSpec
from schema.spec.merge import toml_key
from schema.spec.problems import Problem, SpecError

Count = Annotated[int, PlainValidator(values.kernel_count)]
Seconds = Annotated[int, Field(ge=0, lt=2**63)]


class _Id:
    """Reads an id of one kind from a UUID or its text."""

    def __init__(self, kind: type[EntityId]) -> None:
        self.kind = kind

    def __call__(self, value: Any) -> EntityId:
        if isinstance(value, UUID):
            return self.kind.of(value)
        text = values.plain_text(value)
        try:
            return self.kind(text)
        except ValueError:
            raise InvalidValueError(f"expected a UUID, found {values.shown(text)}") from None


def _name(value: str) -> str:
    if not value.strip():
        raise InvalidValueError("expected a name, found a blank one")
    return values.plain_text(value)


def _timestamp(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidValueError(f"expected a time like 2026-01-31T12:00:00Z, found {values.shown(value)}") from None
    if isinstance(value, datetime) and value.tzinfo is not None:
        try:
            return value.astimezone(UTC)
        except OverflowError:
            # PostgreSQL would store it, and no driver of Python's could read the row back.
            raise InvalidValueError("expected a time of the years 1 to 9999 in UTC") from None
    return value


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp)]
Name = Annotated[str, Field(max_length=64), AfterValidator(_name)]


class _Spec(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, hide_input_in_errors=True
    )


class GroupSpec(_Spec):
    """One role of a session: what each of its kernels runs and asks for."""

    role: Annotated[KernelGroupRole, PlainValidator(values.role)]
    replicas: Count = 1
    """How many kernels."""
    image: Annotated[str, PlainValidator(values.image_name)]
    architecture: Annotated[str, PlainValidator(values.architecture)]
    resource_slots: Mapping[
        Annotated[ResourceSlotName, PlainValidator(values.slot_name)],
        Annotated[Decimal, PlainValidator(values.slot_quantity)],
    ] = Field(default_factory=dict)
    """What each kernel asks for; zeros are not written."""
    shmem: Annotated[int, PlainValidator(values.byte_size)] | None = None
    """Bytes; a part of `mem`."""
    environ: Mapping[
        Annotated[EnvironKey, PlainValidator(values.environ_key)],
        Annotated[str, PlainValidator(values.environ_value)],
    ] = Field(default_factory=dict, repr=False)
    startup_command: Annotated[str, AfterValidator(values.plain_text)] | None = None
    bootstrap_script: Annotated[str, PlainValidator(values.bootstrap_script)] | None = Field(default=None, repr=False)
    preopen_ports: Annotated[tuple[int, ...], PlainValidator(values.ports)] = ()

    @field_validator("shmem")
    @classmethod
    def _shmem_fits(cls, shmem: int | None, info: ValidationInfo) -> int | None:
        if fault := values.shmem_fault(shmem, info.data.get("resource_slots", {}).get("mem")):
            raise InvalidValueError(fault)
        return shmem


class SessionSpec(_Spec):
    """A session and its groups, complete and valid in itself; what it refers to, the database checks."""

    id: Annotated[SessionID, PlainValidator(_Id(SessionID))] | None = None
    """Given by whoever may have to enqueue again: a second session of one id is refused."""
    name: Name | None = None
    session_type: Literal["interactive", "batch", "inference", "system"] = "interactive"
    cluster_mode: Literal["single-node", "multi-node"] = "single-node"
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 10
    domain_name: Name | None = None
    group_id: Annotated[GroupID, PlainValidator(_Id(GroupID))] | None = None
    user_uuid: Annotated[UserID, PlainValidator(_Id(UserID))] | None = None
    access_key: Annotated[str, Field(max_length=20), AfterValidator(values.plain_text)] | None = None
    scaling_group_name: Name | None = None
    requested_starts_at: Timestamp | None = None
    batch_timeout_sec: Seconds | None = None
    depends_on: tuple[Annotated[SessionID, PlainValidator(_Id(SessionID))], ...] = ()
    """Sessions that must end well before this one starts."""
    groups: tuple[GroupSpec, ...]

    @field_validator("depends_on")
    @classmethod
    def _depends_on_others(cls, depends_on: tuple[SessionID, ...], info: ValidationInfo) -> tuple[SessionID, ...]:
        if info.data.get("id") in depends_on:
            raise InvalidValueError("expected other sessions, found the session itself")
        return depends_on

    @field_validator("groups")
    @classmethod
    def _consistent(cls, groups: tuple[GroupSpec, ...]) -> tuple[GroupSpec, ...]:
        if not groups:
            raise InvalidValueError("expected at least one group")
        if fault := _roles_fault(group.role for group in groups):
            raise InvalidValueError(fault)
        if (kernels := sum(group.replicas for group in groups)) > values.MAX_KERNELS:
            raise InvalidValueError(f"expected at most {values.MAX_KERNELS} kernels, found {kernels}")
        return groups

    @property
    def cluster_size(self) -> int:
        """How many kernels the session has."""
        return sum(group.replicas for group in self.groups)


def groups_of(revision: RevisionSpec) -> tuple[GroupSpec, ...]:
    """The kernel groups of a session of a deployment revision: one `main` kernel, the others `sub`."""
    shared = {
        field: getattr(revision, field)
        for field in (
            "image", "architecture", "resource_slots", "shmem", "environ", "startup_command", "bootstrap_script",
            "preopen_ports",
        )
    }  # fmt: skip
    main = GroupSpec(role=KernelGroupRole("main"), **shared)
    if revision.cluster_size == 1:
        return (main,)
    return main, GroupSpec(role=KernelGroupRole("sub"), replicas=revision.cluster_size - 1, **shared)


def session_of(revision: RevisionSpec, **fields: Any) -> SessionSpec:
    """A session that serves a deployment revision.

    Args:
        revision: the revision, generated or loaded.
        fields: what only the session knows: its id, name, owner, scaling group.
    """
    return SessionSpec(
        session_type="inference", cluster_mode=revision.cluster_mode, groups=groups_of(revision), **fields
    )


def parse_session(data: bytes, name: str) -> SessionSpec:
    """Read a session from JSON.

    Args:
        data: the document.
        name: what messages call it.

    Raises:
        InvalidValueError: not readable as JSON.
        SpecError: with every fault found; values of environment variables are not shown.
    """
    document = parse_json(data, name)
    try:
        return SessionSpec.model_validate(_as_tuples(document))
    except ValidationError as error:
        raise SpecError(_problems(error, document), subject=f"The session in {name}") from None


def _as_tuples(document: dict[str, Any]) -> dict[str, Any]:
    # JSON has lists where the models are strict about tuples.
    for field in ("groups", "depends_on"):
        if isinstance(document.get(field), list):
            document[field] = tuple(document[field])
    return document


def _roles_fault(roles: Iterable[str]) -> str | None:
    twice = sorted(role for role, count in Counter(roles).items() if count > 1)
    return f"expected one group per role, found more of {', '.join(map(values.shown, twice))}" if twice else None


def _problems(error: ValidationError, document: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        path = [str(part) for part in fault["loc"] if part != "[key]"]
        field = ".".join(map(toml_key, path)) or "session"
        problems.append(Problem(field, f"field {field}", fault["msg"].removeprefix("Value error, ")))
    # Roles are only compared when every group is valid, and all faults are to be named at once.
    if any(problem.field.startswith("groups.") for problem in problems):
        given = [group.get("role") for group in document["groups"] if isinstance(group, Mapping)]
        if twice := _roles_fault(role for role in given if isinstance(role, str)):
            problems.append(Problem("groups", "field groups", twice))
    return problems
