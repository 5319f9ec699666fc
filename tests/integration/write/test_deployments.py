"""Deployment revisions: a stored one reads back as the very spec, numbers are given one at a time."""

import threading
import traceback
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schema.errors import UsageError
from schema.identity import DeploymentRevisionID, EndpointID, EnvironKey, ResourceSlotName
from schema.spec.definition import ServiceDefinition
from schema.spec.draft import RevisionSpec, RuntimeVariant
from schema.spec.generator import GENERATORS, GeneratedRevision
from schema.spec.merge import Precedence
from schema.spec.problems import SpecError
from schema.spec.session import session_of
from schema.spec.values import CLUSTER_MODES
from schema.write.deployments import UnknownEndpointError, UnknownRevisionError, load_revision, store_revision
from schema.write.enqueue import enqueue

IMAGE = "cr.example.com:5000/stable/python:3.13"
COMPLETE = {"image": IMAGE, "architecture": "x86_64", "resource_slots": {"cpu": "0.5", "mem": "4g", "cuda.device": 0}}

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
WORDS = TEXT.filter(lambda text: text.strip() != "")
QUANTITIES = st.decimals(min_value=0, max_value=Decimal("999999999999999999.999999"), places=6)
REQUESTS = st.fixed_dictionaries(
    {
        "image": st.just(IMAGE),
        "architecture": st.sampled_from(["x86_64", "aarch64"]),
        "resource_slots": st.dictionaries(
            st.sampled_from(["cpu", "cuda.device", "cuda.shares"]), QUANTITIES, min_size=1
        ),
    },
    optional={
        "resource_opts": st.fixed_dictionaries({"shmem": st.integers(0, 2**63 - 1)}),
        "environ": st.dictionaries(KEYS, st.one_of(TEXT, st.just(""))),
        "startup_command": WORDS,
        "bootstrap_script": WORDS,
        "preopen_ports": st.lists(st.integers(1, 65535), max_size=4),
        "cluster_mode": st.sampled_from(CLUSTER_MODES),
        "cluster_size": st.integers(1, 100_000),
        "model_definition_path": WORDS,
    },
)  # fmt: skip


def generate(request: dict[str, object], variant: RuntimeVariant = RuntimeVariant.VLLM) -> GeneratedRevision:
    return GENERATORS[variant].generate({"model_definition_path": "m.yaml", **request})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request_=REQUESTS, variant=st.sampled_from(RuntimeVariant))
def test_a_stored_revision_reads_back_as_the_very_spec(
    cluster: Any, request_: dict[str, object], variant: RuntimeVariant
) -> None:
    generated = generate(request_, variant)
    with cluster.engine.begin() as connection:
        stored = store_revision(connection, cluster.endpoint_id, generated)
        loaded = load_revision(connection, stored.id)
    assert loaded == generated.spec
    written = (
        {name: str(quantity) for name, quantity in spec.resource_slots.items()} for spec in (loaded, generated.spec)
    )
    assert next(written) == next(written)
    assert {type(key) for key in loaded.resource_slots} == {ResourceSlotName}
    assert {type(key) for key in loaded.environ} <= {EnvironKey}


def test_the_rows_of_a_revision(cluster: Any) -> None:
    request = COMPLETE | {"environ": {"A": ""}, "bootstrap_script": "boot", "preopen_ports": [2, 1]}
    with cluster.engine.begin() as connection:
        stored = store_revision(connection, cluster.endpoint_id, generate(request | {"resource_opts": {"shmem": "1g"}}))
        again = store_revision(connection, cluster.endpoint_id, generate(request))
    assert (stored.number, again.number) == (1, 2)
    assert cluster.rows(
        "SELECT r.id, endpoint_id, revision_number, image_id, image, architecture, runtime_variant, shmem, script,"
        " preopen_ports FROM deployment_revisions r JOIN bootstrap_script_revisions b"
        " ON b.id = bootstrap_script_revision_id ORDER BY revision_number LIMIT 1"
    ) == [
        (stored.id, cluster.endpoint_id, 1, cluster.images["x86_64"], IMAGE, "x86_64", "vllm", 1024**3, "boot", [2, 1])
    ]
    assert cluster.rows(
        "SELECT slot_name, quantity FROM deployment_revision_resource_slots WHERE revision_id = :id ORDER BY 1",
        id=stored.id,
    ) == [("cpu", Decimal("0.5")), ("cuda.device", 0), ("mem", 4 * 1024**3)]
    assert cluster.count("bootstrap_script_revisions") == 1
    cluster.run("DELETE FROM images")
    with cluster.engine.connect() as connection:
        assert load_revision(connection, stored.id).image == IMAGE
    cluster.run("DELETE FROM endpoints")
    assert cluster.count("deployment_revisions") == 0
    assert cluster.count("deployment_revision_resource_slots") == cluster.count("deployment_revision_environ") == 0


@pytest.mark.parametrize("precedence", list(Precedence))
def test_what_is_unknown_is_named_with_its_place(cluster: Any, precedence: Precedence) -> None:
    definition = ServiceDefinition.parse(
        b'[environment]\nimage = "no.where/a/b:c"\n[vllm.resource_slots]\n"tpu.none" = 1\n'
    )
    request = {"architecture": "x86_64", "resource_slots": {"nothing": 1}}
    generated = GENERATORS[RuntimeVariant.VLLM].generate(request, definition, precedence)
    with cluster.engine.begin() as connection, pytest.raises(SpecError) as caught:
        store_revision(connection, cluster.endpoint_id, generated)
    found = {problem.place: problem.message.split(":")[0] for problem in caught.value.problems}
    assert set(found) == {
        "definition key environment.image with request field architecture",
        "request field resource_slots.nothing",
        'definition key vllm.resource_slots."tpu.none"',
    }
    assert cluster.count("deployment_revisions") == 0


def test_unknown_endpoint_and_revision(cluster: Any) -> None:
    with cluster.engine.begin() as connection:
        with pytest.raises(UnknownEndpointError, match="no endpoint 00000000-0000-0000-0000-000000000005"):
            store_revision(connection, EndpointID(int=5), generate(COMPLETE))
        with pytest.raises(UnknownRevisionError, match="no deployment revision 00000000-0000-0000-0000-000000000005"):
            load_revision(connection, DeploymentRevisionID(int=5))


def test_a_connection_in_autocommit_is_refused(cluster: Any) -> None:
    """It would give the endpoint's lock away before the number is used, and leave a revision without its slots."""
    autocommit = cluster.engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection, pytest.raises(UsageError, match="a revision cannot be stored"):
        store_revision(connection, cluster.endpoint_id, generate(COMPLETE))
    assert cluster.count("deployment_revisions") == 0


def test_a_refused_row_is_not_quoted(cluster: Any) -> None:
    cluster.run("ALTER TABLE deployment_revision_environ ADD CONSTRAINT strict CHECK (length(value) < 3)")
    generated = generate(COMPLETE | {"environ": {"TOKEN": "s3cret"}})
    talkative = sa.create_engine(cluster.url, poolclass=sa.NullPool)
    with talkative.connect() as connection, pytest.raises(sa.exc.IntegrityError, match='constraint "strict"') as caught:
        store_revision(connection, cluster.endpoint_id, generated)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_two_revisions_of_one_endpoint_at_once_get_two_numbers(cluster: Any) -> None:
    numbers: list[int] = []

    def store() -> None:
        for _ in range(10):
            with cluster.engine.begin() as connection:
                numbers.append(store_revision(connection, cluster.endpoint_id, generate(COMPLETE)).number)

    threads = [threading.Thread(target=store) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 31))


def test_a_stored_revision_becomes_a_sessions_groups(cluster: Any) -> None:
    made: Callable[[RevisionSpec], Any] = lambda spec: session_of(spec, name="serving")  # noqa: E731
    request = COMPLETE | {"cluster_size": 3, "environ": {"A": "x"}, "startup_command": "serve"}
    with cluster.engine.begin() as connection:
        stored = store_revision(connection, cluster.endpoint_id, generate(request))
        done = enqueue(connection, made(load_revision(connection, stored.id)))
    assert cluster.rows(
        "SELECT role, startup_command, (SELECT count(*) FROM kernels k WHERE k.kernel_group_id = g.id),"
        " (SELECT array_agg(slot_name ORDER BY slot_name) FROM kernel_group_resource_slots s"
        "  WHERE s.kernel_group_id = g.id),"
        " (SELECT array_agg(key || '=' || value) FROM kernel_group_environ e WHERE e.kernel_group_id = g.id)"
        " FROM kernel_groups g WHERE session_id = :id ORDER BY role",
        id=done.id,
    ) == [("main", "serve", 1, ["cpu", "mem"], ["A=x"]), ("sub", "serve", 2, ["cpu", "mem"], ["A=x"])]


@pytest.mark.parametrize("key", ["A-B", "1A", "A\n", "A B", ""])
def test_the_database_refuses_what_the_spec_refuses(cluster: Any, key: str) -> None:
    with cluster.engine.begin() as connection:
        stored = store_revision(connection, cluster.endpoint_id, generate(COMPLETE))
    with pytest.raises(sa.exc.IntegrityError, match="ck_deployment_revision_environ_key_format"):
        cluster.run("INSERT INTO deployment_revision_environ VALUES (:id, :key, 'x')", id=stored.id, key=key)
