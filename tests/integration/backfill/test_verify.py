"""What a verification and a plan find: every way in which the outcome can be wrong, and divergent roles."""

import pytest

from schema.backfill import report, survey
from schema.backfill.jobs.kernel_groups import KernelGroups

DIVERGENT = {
    "image": ({"image_id": "image-1"}, {"image_id": "image-2"}, "image"),
    "no image": ({"image_id": "image-1"}, {}, "image"),
    "command": ({"startup_command": ""}, {"startup_command": None}, "startup command"),
    "order of ports": ({"preopen_ports": [1, 2]}, {"preopen_ports": [2, 1]}, "ports"),
    "no ports": ({"preopen_ports": []}, {"preopen_ports": None}, ""),
    "order of environ": ({"environ": ["A=1", "B=2"]}, {"environ": ["B=2", "A=1"]}, ""),
    "overridden environ": ({"environ": ["A=0", "A=1"]}, {"environ": ["A=1"]}, ""),
    "bad environ entries": ({"environ": ["A=1", "bad", None, "x y=1"]}, {"environ": ["A=1"]}, ""),
    "no environ": ({"environ": []}, {"environ": None}, ""),
    "environ": ({"environ": ["A=1"]}, {"environ": ["A=2"]}, "environ"),
    "spelling of shmem": ({"resource_opts": {"shmem": "64m"}}, {"resource_opts": {"shmem": 67108864}}, ""),
    "shmem": ({"resource_opts": {"shmem": "64m"}}, {"resource_opts": {"shmem": "65m"}}, "shmem"),
    "no shmem": ({"resource_opts": {"shmem": 0}}, {"resource_opts": {}}, "shmem"),
    "other resource_opts": ({"resource_opts": {"x": 1}}, {"resource_opts": {"x": 2}}, ""),
    "zero slots": ({"allocations": {"cpu": "1", "mem": "0"}}, {"allocations": {"cpu": "1.0"}}, ""),
    "slots": ({"allocations": {"cpu": "1"}}, {"allocations": {"cpu": "2"}}, "slots"),
    "slot more": ({"allocations": {"cpu": "1"}}, {"allocations": {"cpu": "1", "mem": "1"}}, "slots"),
    "no slots": ({"allocations": {"cpu": "1"}}, {}, "slots"),
    "several": (
        {"environ": ["A=1"], "startup_command": "a"},
        {"environ": ["A=2"], "startup_command": "b"},
        "startup command, environ",
    ),
}


@pytest.fixture
def divergent(cluster):
    sessions = {}
    for name, (first, other, _) in DIVERGENT.items():
        sessions[name] = cluster.load(
            {"session": {}, "kernels": [{**first, "cluster_idx": 0}, {**other, "cluster_idx": 1}]}
        )
        # Another role of the session never makes a role divergent.
        cluster.kernel(sessions[name], "sub", startup_command="of another role", environ=["Z=1"])
    return sessions


def test_divergent_roles(cluster, divergent):
    expected = {(divergent[name], "main", fields) for name, (_, _, fields) in DIVERGENT.items() if fields}
    plan = survey.plan(cluster.connection, KernelGroups())
    assert {(finding.key, finding.role, finding.detail) for finding in plan.findings} == expected
    assert plan.counts["divergent"] == len(expected)
    assert cluster.run().totals["divergent"] == len(expected)
    verified = survey.verify(cluster.connection, KernelGroups())
    assert {(finding.key, finding.role, finding.detail) for finding in verified.findings} == expected
    assert verified.failed == 0


def test_third_kernel_counts(cluster):
    session = cluster.session()
    for index, command in enumerate(["a", "a", "b"]):
        cluster.kernel(session, cluster_idx=index, startup_command=command)
    assert cluster.run().totals["divergent"] == 1


GROUP = "(SELECT id FROM kernel_groups WHERE session_id = %(session)s)"
OTHER = "(SELECT id FROM kernel_groups WHERE session_id = %(other)s)"
BREAKS = {
    "unlinked": ("UPDATE kernels SET kernel_group_id = NULL WHERE session_id = %(session)s", ["empty", "unlinked"]),
    "another session": (
        f"UPDATE kernels SET kernel_group_id = {OTHER} WHERE session_id = %(session)s",
        ["empty", "mislinked"],
    ),
    "another role": (f"UPDATE kernel_groups SET role = 'sub' WHERE id = {GROUP}", ["mislinked"]),
    "empty group": ("INSERT INTO kernel_groups (session_id, role) VALUES (%(session)s, 'sub')", ["empty"]),
    "image": (
        f"UPDATE kernel_groups SET image_id = (SELECT id FROM images LIMIT 1) WHERE id = {GROUP}",
        ["spec image_id"],
    ),
    "shmem": (f"UPDATE kernel_groups SET shmem = 6 WHERE id = {GROUP}", ["spec shmem"]),
    "command": (f"UPDATE kernel_groups SET startup_command = NULL WHERE id = {GROUP}", ["spec startup_command"]),
    "ports": (f"UPDATE kernel_groups SET preopen_ports = '{{1}}' WHERE id = {GROUP}", ["spec preopen_ports"]),
    "start": (f"UPDATE kernel_groups SET requested_starts_at = now() WHERE id = {GROUP}", ["spec requested_starts_at"]),
    "timeout": (f"UPDATE kernel_groups SET batch_timeout_sec = 1 WHERE id = {GROUP}", ["spec batch_timeout_sec"]),
    "slot missing": (f"DELETE FROM kernel_group_resource_slots WHERE kernel_group_id = {GROUP}", ["spec slot cpu"]),
    "slot more": (
        f"INSERT INTO kernel_group_resource_slots (kernel_group_id, slot_name, quantity) VALUES ({GROUP}, 'mem', 1)",
        ["spec slot mem"],
    ),
    "slot differs": (
        f"UPDATE kernel_group_resource_slots SET quantity = 2 WHERE kernel_group_id = {GROUP}",
        ["spec slot cpu"],
    ),
    "variable missing": (f"DELETE FROM kernel_group_environ WHERE kernel_group_id = {GROUP}", ["spec environ A"]),
    "variable more": (
        f"INSERT INTO kernel_group_environ (kernel_group_id, key, value) VALUES ({GROUP}, 'B', 'secret')",
        ["spec environ B"],
    ),
    "variable differs": (
        f"UPDATE kernel_group_environ SET value = 'secret' WHERE kernel_group_id = {GROUP}",
        ["spec environ A"],
    ),
    "updated by the application": (
        f"UPDATE kernel_groups SET shmem = 6, updated_at = now() WHERE id = {GROUP}",
        ["differs shmem"],
    ),
}


def test_what_breaks_is_found(cluster, subtests):
    other = cluster.session()
    cluster.kernel(other)
    sessions = {}
    for name in BREAKS:
        sessions[name] = cluster.session()
        cluster.kernel(
            sessions[name],
            environ=["A=1"],
            allocations={"cpu": "1"},
            resource_opts={"shmem": 5},
            startup_command="x",
        )
    cluster.run()
    assert cluster.findings() == []
    for name, (statement, _) in BREAKS.items():
        parameters = {"session": sessions[name], "other": other}
        assert cluster.connection.execute(statement, parameters).rowcount == 1
    found = survey.verify(cluster.connection, KernelGroups())
    for name, (_, expected) in BREAKS.items():
        with subtests.test(name):
            said = sorted(
                f"{finding.check} {finding.detail}" if finding.check in ("spec", "differs") else finding.check
                for finding in found.findings
                if finding.key == sessions[name]
            )
            assert said == expected
    assert found.failed == sum(not text.startswith("differs") for _, texts in BREAKS.values() for text in texts)
    assert "secret" not in repr(found)


def test_application_groups_may_differ(cluster):
    session = cluster.session()
    cluster.kernel(session, environ=["A=1"])
    cluster.group(session, environ={"A": "2"})
    cluster.run()
    assert cluster.findings() == [("differs", False)]


def test_progress(cluster):
    assert report.progress(cluster.connection, KernelGroups()) is None
    session = cluster.session()
    cluster.kernel(session, environ=["bad"])
    cluster.run()
    progress = report.progress(cluster.connection, KernelGroups())
    assert (progress.state, progress.percent, progress.done, progress.expected) == ("complete", 100.0, 1, 1)
    assert progress.totals["rejects"] == 1
    assert progress.workers == []
    assert report.reject_counts(cluster.connection, "kernel_groups") == {"environ": 1}
    [reject] = report.rejects(cluster.connection, "kernel_groups")
    assert (reject.parent_key, reject.field, reject.raw) == (str(session), "environ", None)
    [shown] = report.rejects(cluster.connection, "kernel_groups", show_values=True)
    assert shown.raw == "bad"


def test_no_ledger_is_no_progress(cluster):
    cluster.connection.execute("DROP TABLE backfill_rejects, backfill_chunks, backfill_runs")
    assert report.progress(cluster.connection, KernelGroups()) is None
