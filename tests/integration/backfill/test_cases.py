"""The worked cases of the kernel-group backfill, alone and in the ways that a run meets half-done work."""

from datetime import timedelta

import pytest


@pytest.fixture
def loaded(cluster, cases):
    return [(case, cluster.load(case)) for case in cases]


def check(cluster, loaded, subtests):
    for case, session in loaded:
        with subtests.test(case["id"]):
            assert cluster.groups(session) == case["groups"]
            assert cluster.rejects(session) == [reject["field"] for reject in case["rejects"]]
    assert cluster.failures() == []


def test_once(cluster, loaded, subtests):
    outcome = cluster.run()
    check(cluster, loaded, subtests)
    assert outcome.totals == {
        "sessions": len(loaded),
        "groups": sum(len(case["groups"]) for case, _ in loaded),
        "slots": sum(len(group["slots"]) for case, _ in loaded for group in case["groups"]),
        "environ": sum(len(group["environ"]) for case, _ in loaded for group in case["groups"]),
        "linked": sum(len(case["kernels"]) for case, _ in loaded),
        "rejects": sum(len(case["rejects"]) for case, _ in loaded),
        "divergent": 0,
    }


def test_twice(cluster, loaded, subtests):
    cluster.run()
    before = cluster.everything()
    outcome = cluster.run()
    check(cluster, loaded, subtests)
    assert cluster.everything() == before
    assert {name: total for name, total in outcome.totals.items() if total} == {"sessions": len(loaded)}


def test_stopped_between_batches(cluster, loaded, subtests):
    calls = 0
    while cluster.run(batch_size=1, max_time=timedelta(0)).end == "time":
        calls += 1
    assert calls >= len(loaded)
    check(cluster, loaded, subtests)
    runs = cluster.connection.execute("SELECT state, totals FROM backfill_runs").fetchall()
    assert [(state, totals["sessions"]) for state, totals in runs] == [("complete", len(loaded))]


def test_groups_made_and_no_kernel_linked(cluster, loaded, subtests):
    cluster.run()
    cluster.connection.execute("UPDATE kernels SET kernel_group_id = NULL")
    outcome = cluster.run()
    check(cluster, loaded, subtests)
    assert outcome.totals["groups"] == 0
    assert outcome.totals["linked"] == sum(len(case["kernels"]) for case, _ in loaded)


def test_some_kernels_linked(cluster, loaded, subtests):
    cluster.run()
    unlinked = cluster.connection.execute("UPDATE kernels SET kernel_group_id = NULL WHERE cluster_idx > 1").rowcount
    assert cluster.run().totals["linked"] == unlinked > 0
    check(cluster, loaded, subtests)


def test_application_made_the_groups_first(cluster, loaded, subtests):
    for case, session in loaded:
        for group in case["groups"]:
            cluster.group(session, group["role"], shmem=7, slots={"tpu.device": "3"}, environ={"APP": "1"})
    cluster.run()
    for case, session in loaded:
        with subtests.test(case["id"]):
            found = cluster.groups(session)
            assert [group["role"] for group in found] == [group["role"] for group in case["groups"]]
            assert [group["kernels"] for group in found] == [group["kernels"] for group in case["groups"]]
            assert all(
                (group["shmem"], group["slots"], group["environ"]) == (7, {"tpu.device": 3}, {"APP": "1"})
                for group in found
            )
            assert cluster.rejects(session) == []
    assert set(cluster.findings()) == {("differs", False)}
