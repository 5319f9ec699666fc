"""Every rule of the kernel-group backfill at its edges: one table, loaded at once, backfilled in one run."""

from decimal import Decimal
from typing import Any

import pytest


def options(*specs: Any, role: str = "main") -> dict[str, Any]:
    """Session columns whose options hold one group per spec, all of one role."""
    return {"options": {"kernel_groups": [{"role": role, "execution_spec": spec} for spec in specs]}}


def kernel(**columns: Any) -> dict[str, Any]:
    return {"cluster_role": "main", **columns}


def entry(name: Any, quantity: Any) -> dict[str, Any]:
    return {"resource_type": name, "quantity": quantity}


def shmem(value: Any, expected: int | None, *rejects: str) -> tuple[Any, ...]:
    return ({}, [kernel(resource_opts={"shmem": value})], {"shmem": expected}, rejects)


def starts(value: Any, expected: str | None, *rejects: str) -> tuple[Any, ...]:
    session = {"requested_starts_at": "2000-01-01T00:00:00Z", **options({"starts_at": value})}
    return (session, [kernel()], {"requested_starts_at": expected}, rejects)


def timeout(value: Any, expected: int | None, *rejects: str) -> tuple[Any, ...]:
    session = {"batch_timeout": 99, **options({"batch_timeout_sec": value})}
    return (session, [kernel()], {"batch_timeout_sec": expected}, rejects)


def slots(resources: Any, expected: dict[str, str], *rejects: str) -> tuple[Any, ...]:
    quantities = {name: Decimal(quantity) for name, quantity in expected.items()}
    return (options({"resource_input": {"resources": resources}}), [kernel()], {"slots": quantities}, rejects)


def listed(environ: Any, expected: dict[str, str], *rejects: str) -> tuple[Any, ...]:
    return ({"environ": {"NOT": "used"}}, [kernel(environ=environ)], {"environ": expected}, rejects)


def mapped(environ: Any, expected: dict[str, str], *rejects: str) -> tuple[Any, ...]:
    return ({"environ": environ}, [kernel(environ=None)], {"environ": expected}, rejects)


def groups(value: Any, *rejects: str) -> tuple[Any, ...]:
    """Something in the place of the options' groups that holds none: the session's columns count."""
    session = {"batch_timeout": 5, "environ": {"A": "1"}, "options": {"kernel_groups": value}}
    return (session, [kernel()], {"batch_timeout_sec": 5, "environ": {"A": "1"}}, rejects)


FIRST = {"startup_command": "first"}
OTHER = {"startup_command": "other"}

RULES: dict[str, tuple[Any, ...]] = {
    # Representative
    "lowest cluster_idx": (
        {},
        [kernel(cluster_idx=2, **OTHER), kernel(cluster_idx=1, local_rank=9, **FIRST)],
        FIRST,
        (),
    ),
    "lowest local_rank": ({}, [kernel(local_rank=2, **OTHER), kernel(local_rank=1, **FIRST)], FIRST, ()),
    "oldest": (
        {},
        [kernel(created_at="2026-01-02T00:00:00Z", **OTHER), kernel(created_at="2026-01-01T00:00:00Z", **FIRST)],
        FIRST,
        (),
    ),
    "no created_at comes last": (
        {},
        [kernel(created_at=None, **OTHER), kernel(created_at="2026-01-01T00:00:00Z", **FIRST)],
        FIRST,
        (),
    ),
    "lowest id": (
        {},
        [
            kernel(id="00000000-0000-4000-8000-0000000000f2", created_at=None, **OTHER),
            kernel(id="00000000-0000-4000-8000-0000000000f1", created_at=None, **FIRST),
        ],
        FIRST,
        (),
    ),
    "whatever status": (
        {},
        [
            kernel(cluster_idx=2, status="RUNNING", **OTHER),
            kernel(cluster_idx=1, status="CANCELLED", **FIRST),
        ],
        {**FIRST, "kernels": 2},
        (),
    ),
    # Columns
    "empty command": ({"startup_command": "of the session"}, [kernel(startup_command="")], {"startup_command": ""}, ()),
    "no command": ({"startup_command": "of the session"}, [kernel()], {"startup_command": None}, ()),
    "order of ports": ({}, [kernel(preopen_ports=[9, 1, 5, 1])], {"preopen_ports": [9, 1, 5, 1]}, ()),
    "image by name": ({}, [kernel(image="r/p/image-1:t", registry="r", tag="t")], {"image_id": None}, ()),
    "start of the session": (
        {"requested_starts_at": "2026-03-01T10:00:00+02:00", "starts_at": "2026-04-01T00:00:00Z", "batch_timeout": 7},
        [kernel(starts_at="2026-05-01T00:00:00Z")],
        {"requested_starts_at": "2026-03-01T08:00:00Z", "batch_timeout_sec": 7},
        (),
    ),
    "run times are no requests": (
        {"starts_at": "2026-04-01T00:00:00Z"},
        [kernel(starts_at="2026-05-01T00:00:00Z")],
        {"requested_starts_at": None},
        (),
    ),
    # shmem
    "shmem 0": shmem(0, 0),
    "shmem '0'": shmem("0", 0),
    "shmem fraction in JSON": shmem(1.5, None, "shmem"),
    "shmem whole fraction in JSON": shmem(64.0, 64),
    "shmem exponent in JSON": ({}, [kernel(resource_opts='{"shmem": 1e3}')], {"shmem": 1000}, ()),
    "shmem huge in JSON": ({}, [kernel(resource_opts='{"shmem": 1e400}')], {"shmem": None}, ("shmem",)),
    "shmem largest": shmem(2**63 - 1, 2**63 - 1),
    "shmem too large": shmem(2**63, None, "shmem"),
    "shmem negative": shmem(-1, None, "shmem"),
    "shmem null": shmem(None, None),
    "shmem true": shmem(True, None, "shmem"),
    "shmem object": shmem({"a": 1}, None, "shmem"),
    "shmem list": shmem([64], None, "shmem"),
    "shmem blank": shmem("", None, "shmem"),
    "shmem blanks around": shmem("\t 64 M \n", 64 * 2**20),
    "shmem bytes": shmem("100 bytes", 100),
    "shmem cut": shmem("0.0001k", 0),
    "shmem underscores": shmem("536_870_912", 536870912),
    "shmem point zero": shmem("67108864.0", 67108864),
    "shmem 1e9": shmem("1e9", None, "shmem"),
    "shmem inf": shmem("inf", None, "shmem"),
    "shmem 1.5": shmem("1.5", None, "shmem"),
    "shmem Kelvin": shmem("1\u212a", None, "shmem"),
    "shmem Arabic digit": shmem("\u0661", None, "shmem"),
    "shmem long": shmem("1" * 65, None, "shmem"),
    "resource_opts null": ({}, [kernel(resource_opts="null")], {"shmem": None}, ()),
    "resource_opts list": ({}, [kernel(resource_opts='[{"shmem": 1}]')], {"shmem": None}, ("resource_opts",)),
    "resource_opts text": ({}, [kernel(resource_opts='"shmem"')], {"shmem": None}, ("resource_opts",)),
    # Start
    "start Z": starts("2026-10-01T09:00:00Z", "2026-10-01T09:00:00Z"),
    "start blank": starts("2026-10-01 09:00:00", "2026-10-01T09:00:00Z"),
    "start minutes": starts("2026-10-01T09:00+09", "2026-10-01T00:00:00Z"),
    "start negative offset": starts("2026-10-01T09:00:00-03:30", "2026-10-01T12:30:00Z"),
    "start fraction": starts("2026-10-01T09:00:00.25Z", "2026-10-01T09:00:00.250000Z"),
    "start nine digits": starts("2026-10-01T09:00:00.123456789Z", "2026-10-01T09:00:00.123457Z"),
    "start long fraction": starts("2026-10-01T09:00:00." + "1" * 200 + "Z", None, "requested_starts_at"),
    "start null": starts(None, None),
    "start leap day": starts("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
    "start leap century": starts("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
    "start no leap day": starts("2026-02-29T00:00:00Z", None, "requested_starts_at"),
    "start no leap century": starts("2100-02-29T00:00:00Z", None, "requested_starts_at"),
    "start February 30": starts("2026-02-30T00:00:00Z", None, "requested_starts_at"),
    "start April 31": starts("2026-04-31T00:00:00Z", None, "requested_starts_at"),
    "start month 13": starts("2026-13-01T00:00:00Z", None, "requested_starts_at"),
    "start month 0": starts("2026-00-01T00:00:00Z", None, "requested_starts_at"),
    "start day 0": starts("2026-01-00T00:00:00Z", None, "requested_starts_at"),
    "start year 0": starts("0000-01-01T00:00:00Z", None, "requested_starts_at"),
    "start year 1": starts("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    "start before year 1": starts("0001-01-01T00:00:00+01:00", None, "requested_starts_at"),
    "start last second": starts("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    "start rounds into year 10000": starts("9999-12-31T23:59:59.9999999Z", None, "requested_starts_at"),
    "start after year 9999": starts("9999-12-31T23:59:59-01:00", None, "requested_starts_at"),
    "start 24:00": starts("2026-01-01T24:00:00Z", None, "requested_starts_at"),
    "start 24:61": starts("2026-01-01T24:61:00Z", None, "requested_starts_at"),
    "start 23:60": starts("2026-01-01T23:60:00Z", None, "requested_starts_at"),
    "start leap second": starts("2026-01-01T23:59:60Z", None, "requested_starts_at"),
    "start offset 15:59": starts("2026-01-01T00:00:00+15:59", "2025-12-31T08:01:00Z"),
    "start offset 16": starts("2026-01-01T00:00:00+16:00", None, "requested_starts_at"),
    "start offset :60": starts("2026-01-01T00:00:00+01:60", None, "requested_starts_at"),
    "start date only": starts("2026-01-01", None, "requested_starts_at"),
    "start number": starts(1767225600, None, "requested_starts_at"),
    "start epoch": starts("epoch", None, "requested_starts_at"),
    "start now": starts("now", None, "requested_starts_at"),
    "start infinity": starts("infinity", None, "requested_starts_at"),
    "start zone name": starts("2026-01-01T00:00:00 Europe/Paris", None, "requested_starts_at"),
    "start newline": starts("2026-01-01T00:00:00Z\n", None, "requested_starts_at"),
    "start Arabic digits": starts("\u0662026-01-01T00:00:00Z", None, "requested_starts_at"),
    "start blank text": starts("", None, "requested_starts_at"),
    # Timeout
    "timeout 0": timeout(0, 0),
    "timeout 60.0": timeout(60.0, 60),
    "timeout null": timeout(None, None),
    "timeout largest": timeout(2**63 - 1, 2**63 - 1),
    "timeout too large": timeout(2**63, None, "batch_timeout_sec"),
    "timeout negative": timeout(-1, None, "batch_timeout_sec"),
    "timeout fraction": timeout(1.5, None, "batch_timeout_sec"),
    "timeout text": timeout("60", None, "batch_timeout_sec"),
    "timeout true": timeout(True, None, "batch_timeout_sec"),
    # Slots
    "slots as allocated": (
        options({"resources": [entry("mem", "1g")]}),
        [kernel(allocations={"cpu": "2.500000", "mem": "0"})],
        {"slots": {"cpu": Decimal("2.5")}},
        (),
    ),
    "zeros are an allocation": (
        options({"resources": [entry("cpu", "1")]}),
        [kernel(allocations={"cpu": "0"})],
        {"slots": {}},
        (),
    ),
    "allocation not a number": (
        options({"resources": [entry("cpu", "1")]}),
        [kernel(allocations={"cpu": "NaN", "mem": "-1", "tpu.device": "1"})],
        {"slots": {"tpu.device": Decimal(1)}},
        ("slots", "slots"),
    ),
    "allocations of another kernel": (
        {},
        [kernel(cluster_idx=1), kernel(cluster_idx=2, allocations={"cpu": "1"})],
        {"slots": {}},
        (),
    ),
    "slots nested": slots([entry("cpu", "1.5"), entry("mem", "4g")], {"cpu": "1.5", "mem": str(4 * 2**30)}),
    "slots flat": (
        options({"resources": [entry("cpu", 2)]}),
        [kernel()],
        {"slots": {"cpu": Decimal(2)}},
        (),
    ),
    "slots nested before flat": (
        options({"resource_input": {"resources": [entry("cpu", 1)]}, "resources": [entry("mem", 1)]}),
        [kernel()],
        {"slots": {"cpu": Decimal(1)}},
        (),
    ),
    "slots flat when nested is null": (
        options({"resource_input": {"resources": None}, "resources": [entry("mem", 1)]}),
        [kernel()],
        {"slots": {"mem": Decimal(1)}},
        (),
    ),
    "slots zero": slots([entry("cpu", 0), entry("mem", "0g")], {}),
    "slots unknown": slots([entry("vendor.gone", "1"), entry("cpu", "1")], {"cpu": "1"}, "slots"),
    "slots unreadable": slots([entry("cpu", "many"), entry("mem", True)], {}, "slots", "slots"),
    "slots negative": slots([entry("cpu", -1)], {}, "slots"),
    "slots no quantity": slots([{"resource_type": "cpu"}, entry("mem", None)], {}, "slots", "slots"),
    "slots seven digits": slots([entry("cpu", "0.0000001")], {}, "slots"),
    "slots six digits": slots([entry("cpu", "0.000001000")], {"cpu": "0.000001"}),
    "slots largest": slots([entry("mem", 10**18 - 1)], {"mem": str(10**18 - 1)}),
    "slots too large": slots([entry("mem", 10**18)], {}, "slots"),
    "slots one exbibyte": slots([entry("mem", "1e")], {}, "slots"),
    "slots twice": slots([entry("cpu", "1"), entry("cpu", "2")], {"cpu": "2"}, "slots"),
    "slots twice and unreadable": slots([entry("cpu", "1"), entry("cpu", "x")], {}, "slots", "slots"),
    "slots twice and zero": slots([entry("cpu", "1"), entry("cpu", "0")], {}, "slots"),
    "slots odd entries": slots(["cpu", None, 5, {}, entry(None, 1), entry(5, 1)], {}, *["slots"] * 6),
    "slots no array": slots({"cpu": 1}, {}, "slots"),
    "slots text": slots("cpu", {}, "slots"),
    "resource_input no object": (options({"resource_input": [1]}), [kernel()], {"slots": {}}, ("slots",)),
    "resource_input null": (options({"resource_input": None}), [kernel()], {"slots": {}}, ()),
    "bad options not looked at": (
        options({"resources": "cpu"}),
        [kernel(allocations={"cpu": "1"})],
        {"slots": {"cpu": Decimal(1)}},
        (),
    ),
    "options of another role": (
        options({"resources": [entry("cpu", 1)], "batch_timeout_sec": 5}, role="sub") | {"batch_timeout": 3},
        [kernel()],
        {"slots": {}, "batch_timeout_sec": 3, "environ": {}},
        (),
    ),
    # Environ
    "list split at the first =": listed(["A=b=c=", "B="], {"A": "b=c=", "B": ""}),
    "list newline": listed(["A=1\n2\n", "B= x "], {"A": "1\n2\n", "B": " x "}),
    "list later wins": listed(["A=1", "B=2", "A=3"], {"A": "3", "B": "2"}),
    "list NULL": listed(["A=1", None], {"A": "1"}, "environ"),
    "list without =": listed(["A", "B=1", ""], {"B": "1"}, "environ", "environ"),
    "list bad keys": listed(["1A=x", "=x", "A-B=x", " A=x", "A\n=x", "\u00c4=x"], {}, *["environ"] * 6),
    "list key case": listed(["a=1", "A=2", "_=3"], {"a": "1", "A": "2", "_": "3"}),
    "list longest key": listed(["A" * 256 + "=1", "B" * 257 + "=1"], {"A" * 256: "1"}, "environ"),
    "list all bad is not empty": listed(["A"], {}, "environ"),
    "list valid one stays when a later bad one has no =": listed(["A=1", "A"], {"A": "1"}, "environ"),
    "object": mapped({"A": "1", "B": None, "C": True, "D": False}, {"A": "1", "B": "None", "C": "True", "D": "False"}),
    "object numbers": mapped({"A": 1, "B": 1.50, "C": -0.1}, {"A": "1", "B": "1.5", "C": "-0.1"}),
    "object number text": ({"environ": '{"A": 1.50}'}, [kernel()], {"environ": {"A": "1.50"}}, ()),
    "object nested": mapped({"A": {"b": [1, None]}, "B": []}, {"A": '{"b": [1, null]}', "B": "[]"}),
    "object bad key": mapped({"A B": "1", "C": "1", "": "x"}, {"C": "1"}, "environ", "environ"),
    "object for an empty list": ({"environ": {"A": "1"}}, [kernel(environ=[])], {"environ": {"A": "1"}}, ()),
    "object list": ({"environ": '["A=1"]'}, [kernel()], {"environ": {}}, ("environ",)),
    "object text": ({"environ": '"A=1"'}, [kernel()], {"environ": {}}, ("environ",)),
    "object null": ({"environ": "null"}, [kernel()], {"environ": {}}, ()),
    "object unused": ({"environ": '["A=1"]'}, [kernel(environ=["A=1"])], {"environ": {"A": "1"}}, ()),
    "object unused for groups": ({"environ": {"A": "1"}, **options({}, role="sub")}, [kernel()], {"environ": {}}, ()),
    # Options
    "groups null": groups(None),
    "groups empty": groups([]),
    "groups object": groups({"main": {}}, "options"),
    "groups text": groups("main", "options"),
    "groups number": groups(5, "options"),
    "groups odd entries": groups([5, None, [], "main", {}, {"role": None}, {"role": 5}], *["options"] * 7),
    "options missing": ({"options": {}, "batch_timeout": 5}, [kernel()], {"batch_timeout_sec": 5}, ()),
    "options list": ({"options": "[1]", "batch_timeout": 5}, [kernel()], {"batch_timeout_sec": 5}, ("options",)),
    "options text": ({"options": '"x"', "batch_timeout": 5}, [kernel()], {"batch_timeout_sec": 5}, ("options",)),
    "options JSON null": ({"options": "null", "batch_timeout": 5}, [kernel()], {"batch_timeout_sec": 5}, ()),
    "first of a role": (
        options({"batch_timeout_sec": 1}, {"batch_timeout_sec": 2}),
        [kernel()],
        {"batch_timeout_sec": 1},
        ("options",),
    ),
    "entry without spec": (
        {"options": {"kernel_groups": [{"role": "main"}]}, "batch_timeout": 5, "environ": {"A": "1"}},
        [kernel()],
        {"batch_timeout_sec": None, "environ": {}, "slots": {}},
        (),
    ),
    "entry with null spec": (options(None) | {"batch_timeout": 5}, [kernel()], {"batch_timeout_sec": None}, ()),
    "entry with a list for spec": (
        options([5]) | {"batch_timeout": 5},
        [kernel()],
        {"batch_timeout_sec": None},
        ("options",),
    ),
    "role as text": (
        options({"batch_timeout_sec": 1}, role="MAIN") | {"batch_timeout": 5},
        [kernel()],
        {"batch_timeout_sec": 5},
        (),
    ),
    "empty role": (
        options({"batch_timeout_sec": 1}, role=""),
        [kernel(cluster_role="")],
        {"role": "", "batch_timeout_sec": 1},
        (),
    ),
}


@pytest.fixture
def sessions(cluster):
    return {name: cluster.load({"session": rule[0], "kernels": rule[1]}) for name, rule in RULES.items()}


def test_rules(cluster, sessions, subtests):
    cluster.run(batch_size=37)
    for name, (_, kernels, group, rejects) in RULES.items():
        with subtests.test(name):
            [found] = cluster.groups(sessions[name])
            assert {field: found[field] for field in group} == group
            assert found["kernels"] == len(kernels)
            assert cluster.rejects(sessions[name]) == sorted(rejects)
    assert cluster.failures() == []


def test_session_wide_rejects_come_once(cluster):
    session = cluster.session(options='{"kernel_groups": [5]}', environ='["A=1"]')
    for role in ("main", "sub", "worker"):
        cluster.kernel(session, role)
    cluster.run()
    rows = cluster.connection.execute(
        "SELECT field, kernel_id, reason, raw FROM backfill_rejects WHERE session_id = %s ORDER BY field", (session,)
    ).fetchall()
    assert rows == [
        ("environ", None, "the session's environ is no JSON object", '["A=1"]'),
        ("options", None, "the entry has no role", "5"),
    ]


def test_reject_names_the_representative_and_keeps_the_value(cluster):
    session = cluster.session()
    cluster.kernel(session, cluster_idx=2, environ=["FINE=1"])
    first = cluster.kernel(session, cluster_idx=1, environ=["pass word=hunter2"])
    run = cluster.run().run
    rows = cluster.connection.execute("SELECT run_id, session_id, kernel_id, field, reason, raw FROM backfill_rejects")
    assert rows.fetchall() == [(run.id, session, first, "environ", "the key is not a valid name", "pass word=hunter2")]


def test_timestamps_do_not_depend_on_the_session_time_zone(cluster):
    session = cluster.session(**options({"starts_at": "2026-10-01T09:00:00"}))
    cluster.kernel(session)
    cluster.connection.execute("SET TimeZone = 'Asia/Seoul'")
    cluster.run()
    assert cluster.groups(session)[0]["requested_starts_at"] == "2026-10-01T09:00:00Z"
    assert cluster.failures() == []


def test_a_stricter_default_isolation_changes_nothing(cluster):
    session = cluster.session()
    cluster.kernel(session)
    cluster.connection.execute("SET default_transaction_isolation = 'serializable'")
    assert cluster.run().totals["linked"] == 1
