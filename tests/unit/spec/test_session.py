"""A session's JSON: what is accepted, and every fault with its field."""

import json
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from schema.errors import InvalidValueError
from schema.identity import EnvironKey, KernelGroupRole, ResourceSlotName, SessionID
from schema.spec.draft import RevisionSpec, RuntimeVariant
from schema.spec.problems import SpecError
from schema.spec.session import GroupSpec, SessionSpec, groups_of, parse_session, session_of

GROUP = {"role": "main", "image": "r/p/n:t", "architecture": "x86_64"}
ID = "0198f3a0-0000-7000-8000-000000000001"


def parse(document: Any) -> SessionSpec:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_session(data, "spec.json")


def problems(document: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse(document)
    return [str(problem) for problem in caught.value.problems]


def test_a_full_session() -> None:
    spec = parse(
        b'\xef\xbb\xbf{"id": "%s", "name": "s", "session_type": "batch", "cluster_mode": "multi-node", "priority": 0,'
        b'"requested_starts_at": "2026-01-31T12:00:00+09:00", "batch_timeout_sec": 0, "depends_on": ["%s"],'
        b'"groups": [{"role": "main", "replicas": 2, "image": "r/p/n:t", "architecture": "x86_64",'
        b'"resource_slots": {"cpu": 0.1, "mem": "4g", "cuda.shares": "0.5"}, "shmem": "64m",'
        b'"environ": {"A": "", "B": "x"}, "preopen_ports": [2, 1]}]}' % (ID.encode(), ID.replace("1", "2").encode())
    )
    (group,) = spec.groups
    assert type(spec.id) is SessionID
    assert spec.depends_on == (UUID(ID.replace("1", "2")),)
    assert spec.requested_starts_at == datetime(2026, 1, 31, 3, tzinfo=UTC)
    assert group.resource_slots == {"cpu": Decimal("0.1"), "mem": 4 * 1024**3, "cuda.shares": Decimal("0.5")}
    assert (group.shmem, group.environ, group.preopen_ports) == (64 * 1024**2, {"A": "", "B": "x"}, (2, 1))
    assert [type(key) for key in (group.role, *group.environ, *group.resource_slots)] == [
        KernelGroupRole, EnvironKey, EnvironKey, ResourceSlotName, ResourceSlotName, ResourceSlotName
    ]  # fmt: skip
    assert spec.cluster_size == 2


def test_two_groups_of_one_role_are_refused() -> None:
    assert problems({"groups": [GROUP, {**GROUP, "role": "sub"}, GROUP]}) == [
        "field groups: expected one group per role, found more of 'main'"
    ]


def test_every_fault_is_named_and_no_environment_value_shown() -> None:
    group = {"role": "a role", "replicas": 0, "image": "n", "architecture": "", "environ": {"A-B": "s3cret", "C": 5},
             "resource_slots": {"cpu": True, "mem": "lots"}, "shmem": -1, "preopen_ports": [70000],
             "extra": "s3cret"}  # fmt: skip
    found = problems(
        {"id": "x", "name": " ", "session_type": "idle", "depends_on": [5], "groups": [group],
         "requested_starts_at": "2026-01-31T12:00:00", "batch_timeout_sec": -1, "user_uuid": 1, "access_key": "k" * 21}
    )  # fmt: skip
    assert {problem.split(": ")[0].removeprefix("field ") for problem in found} == {
        "id", "name", "session_type", "depends_on.0", "requested_starts_at", "batch_timeout_sec", "user_uuid",
        "access_key", "groups.0.role", "groups.0.replicas", "groups.0.image", "groups.0.architecture",
        "groups.0.environ.A-B", "groups.0.environ.C", "groups.0.resource_slots.cpu", "groups.0.resource_slots.mem",
        "groups.0.shmem", "groups.0.preopen_ports", "groups.0.extra",
    }  # fmt: skip
    assert not any("s3cret" in problem for problem in found)


def test_faults_between_fields_are_named_beside_the_others() -> None:
    fitting = {"shmem": "4g", "resource_slots": {"mem": "4g"}}
    assert problems({"id": ID, "depends_on": [ID], "groups": [GROUP | fitting, GROUP | {"replicas": 0}]}) == [
        "field depends_on: expected other sessions, found the session itself",
        "field groups.0.shmem: shmem of 4294967296 bytes is not below mem, 4294967296 bytes: expected a part of it",
        "field groups.1.replicas: expected a whole number from 1 to 100000, found 0",
        "field groups: expected one group per role, found more of 'main'",
    ]


def test_many_groups_are_compared_in_no_time() -> None:
    groups = tuple(GroupSpec(**GROUP | {"role": f"r{n}"}) for n in range(20_000))
    started = time.process_time()
    assert len(SessionSpec(groups=groups).groups) == 20_000
    # Each role with every other, it took nine seconds.
    assert time.process_time() - started < 2


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
def test_a_time_that_no_reader_could_read_back(moment: str) -> None:
    assert problems({"requested_starts_at": moment, "groups": [GROUP]}) == [
        "field requested_starts_at: expected a time of the years 1 to 9999 in UTC"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"shmem": "4g", "resource_slots": {"mem": "4g"}},
            "groups.0.shmem: shmem of 4294967296 bytes is not below mem",
        ),
        ({"role": "seventeen-letters"}, "groups.0.role: expected at most 16 characters, found 17"),
        ({"image": "a/b\n/c:d"}, "expected a canonical name registry/project/name:tag, found 'a/b\\n/c:d'"),
        ({"startup_command": "a\0b"}, "expected text without a NUL character"),
        ({"startup_command": "\ud800"}, "expected text without half of a surrogate pair"),
    ],
)
def test_faults_of_a_group(change: dict[str, object], message: str) -> None:
    (problem,) = problems({"groups": [GROUP | change]})
    assert message in problem


def test_shmem_below_mem_and_without_mem() -> None:
    assert parse({"groups": [GROUP | {"shmem": "3g", "resource_slots": {"mem": "4g"}}]}).groups[0].shmem == 3 * 1024**3
    assert parse({"groups": [GROUP | {"shmem": 0}]}).groups[0].shmem == 0


def test_sessions_that_cannot_be() -> None:
    assert problems({"groups": []}) == ["field groups: expected at least one group"]
    assert problems({"id": ID, "depends_on": [ID], "groups": [GROUP]}) == [
        "field depends_on: expected other sessions, found the session itself"
    ]
    many = [GROUP | {"replicas": 100_000}, GROUP | {"role": "sub"}]
    assert "expected at most 100000 kernels, found 100001" in problems({"groups": many})[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "is not JSON"),
        (b"[]", "expected an object, found a list"),
        (b'{"groups": [], "groups": []}', "the key 'groups' is given twice"),
        (b'{"priority": NaN}', "NaN is no JSON number"),
        (b'{"priority": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"a": "\xff"}', "is not UTF-8 (line 1, byte 7)"),
        (b" " * (5 * 1024**2), "larger than"),
    ],
)  # fmt: skip
def test_unreadable_documents(data: bytes, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse(data)
    assert message in caught.value.message


def test_a_programs_mistake_shows_no_environment_value() -> None:
    with pytest.raises(ValidationError) as caught:
        GroupSpec(**GROUP, environ={"A-B": "s3cret"})
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(GroupSpec(**GROUP, environ={"A": "s3cret"}))


def test_a_revision_becomes_main_and_sub_groups() -> None:
    slots = {ResourceSlotName("cpu"): Decimal(1)}
    revision = RevisionSpec(
        runtime_variant=RuntimeVariant.VLLM, image="r/p/n:t", architecture="x86_64", resource_slots=slots,
        shmem=5, environ={EnvironKey("A"): "x"}, startup_command="run", bootstrap_script="boot", preopen_ports=(1,),
        cluster_size=3, cluster_mode="multi-node",
    )  # fmt: skip
    main, sub = groups_of(revision)
    assert (main.role, main.replicas, sub.role, sub.replicas) == ("main", 1, "sub", 2)
    assert sub.model_copy(update={"role": "main", "replicas": 1}) == main
    assert main == GroupSpec(
        role="main", image="r/p/n:t", architecture="x86_64", resource_slots=slots, shmem=5,
        environ={"A": "x"}, startup_command="run", bootstrap_script="boot", preopen_ports=(1,),
    )  # fmt: skip
    session = session_of(revision, name="s")
    assert (session.session_type, session.cluster_mode, session.cluster_size) == ("inference", "multi-node", 3)
    assert len(groups_of(revision.model_copy(update={"cluster_size": 1}))) == 1
