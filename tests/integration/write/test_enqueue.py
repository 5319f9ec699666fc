"""Enqueue: the rows, the refusals, the number of statements, and two at once."""

import hashlib
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from schema.errors import UsageError
from schema.identity import SessionID, UserID
from schema.spec.problems import SpecError
from schema.spec.session import SessionSpec
from schema.write.enqueue import SessionConflictError, enqueue

Make = Callable[..., Any]
BOOT_DIGEST = hashlib.sha256(b"boot").hexdigest()


def full(cluster: Any, session: Make, group: Make, **fields: Any) -> SessionSpec:
    main = group(
        resource_slots={"cpu": "0.5", "mem": "4g", "cuda.device": 0},
        shmem="64m",
        environ={"B": 'it\'s "b"\nline=2', "A": ""},
        startup_command="run",
        bootstrap_script="boot",
        preopen_ports=[8080, 22],
    )
    worker = group("worker", replicas=3, architecture="aarch64", resource_slots={"cpu": 2}, bootstrap_script="boot")
    made: SessionSpec = session(
        main,
        worker,
        **{
            "name": "s",
            "user_uuid": UserID(int=1),
            "access_key": "AK",
            "domain_name": "default",
            "group_id": cluster.group_id,
            "scaling_group_name": "pool",
            "cluster_mode": "multi-node",
            "requested_starts_at": datetime(2026, 1, 31, tzinfo=UTC),
            "batch_timeout_sec": 60,
            **fields,
        },
    )
    return made


def test_every_row_of_a_session(cluster: Any, session: Make, group: Make) -> None:
    with cluster.engine.begin() as connection:
        done = enqueue(connection, full(cluster, session, group))
    assert cluster.rows(
        "SELECT id, name, session_type, status, cluster_mode, cluster_size, priority, domain_name, group_id, user_uuid,"
        " access_key, scaling_group_name, environ, requested_starts_at, batch_timeout FROM sessions"
    ) == [
        (done.id, "s", "interactive", "PENDING", "multi-node", 4, 10, "default", cluster.group_id, UUID(int=1), "AK",
         "pool", None, datetime(2026, 1, 31, tzinfo=UTC), 60)
    ]  # fmt: skip
    assert set(done.groups) == {"main", "worker"}
    assert done.kernels == 4
    assert cluster.rows(
        "SELECT g.id, g.session_id, g.role, g.image_id, g.shmem, g.startup_command, g.preopen_ports,"
        " g.requested_starts_at, g.batch_timeout_sec, b.script FROM kernel_groups g"
        " JOIN bootstrap_script_revisions b ON b.id = g.bootstrap_script_revision_id ORDER BY role"
    ) == [
        (done.groups["main"], done.id, "main", cluster.images["x86_64"], 64 * 1024**2, "run", [8080, 22],
         datetime(2026, 1, 31, tzinfo=UTC), 60, "boot"),
        (done.groups["worker"], done.id, "worker", cluster.images["aarch64"], None, None, [],
         datetime(2026, 1, 31, tzinfo=UTC), 60, "boot"),
    ]  # fmt: skip
    assert cluster.rows(
        "SELECT role, slot_name, quantity FROM kernel_group_resource_slots s JOIN kernel_groups g"
        " ON g.id = s.kernel_group_id ORDER BY 1, 2"
    ) == [("main", "cpu", Decimal("0.5")), ("main", "mem", 4 * 1024**3), ("worker", "cpu", 2)]
    assert cluster.rows("SELECT kernel_group_id, key, value FROM kernel_group_environ ORDER BY 2") == [
        (done.groups["main"], "A", ""),
        (done.groups["main"], "B", 'it\'s "b"\nline=2'),
    ]
    kernels = cluster.rows(
        "SELECT cluster_role, cluster_idx, local_rank, cluster_hostname, kernel_group_id, image, image_id,"
        " architecture, registry, environ, resource_opts, preopen_ports, startup_command, bootstrap_script, status"
        " FROM kernels ORDER BY local_rank"
    )
    image = "cr.example.com:5000/stable/python:3.13"
    worker = (done.groups["worker"], image, cluster.images["aarch64"], "aarch64", "cr.example.com:5000", [], {}, [])
    assert kernels == [
        ("main", 1, 0, "main1", done.groups["main"], image, cluster.images["x86_64"], "x86_64", "cr.example.com:5000",
         ["A=", "B=it's \"b\"\nline=2"], {"shmem": 64 * 1024**2}, [8080, 22], "run", "boot", "PENDING"),
        *(("worker", n, n, f"worker{n}", *worker, None, "boot", "PENDING") for n in (1, 2, 3)),
    ]  # fmt: skip
    assert cluster.rows(
        "SELECT session_id = :id, session_name, session_type, cluster_mode, cluster_size, scaling_group, domain_name,"
        " group_id, user_uuid, access_key FROM kernels GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        id=done.id,
    ) == [(True, "s", "interactive", "multi-node", 4, "pool", "default", cluster.group_id, UUID(int=1), "AK")]
    assert cluster.rows(
        "SELECT cluster_role, slot_name, requested, used, count(*) FROM resource_allocations a"
        " JOIN kernels k ON k.id = a.kernel_id GROUP BY 1, 2, 3, 4 ORDER BY 1, 2"
    ) == [
        ("main", "cpu", Decimal("0.5"), None, 1),
        ("main", "mem", Decimal(4 * 1024**3), None, 1),
        ("worker", "cpu", Decimal(2), None, 3),
    ]


@pytest.mark.parametrize("replicas", [1, 1000])
def test_the_number_of_statements_does_not_grow(cluster: Any, session: Make, group: Make, replicas: int) -> None:
    with cluster.engine.begin() as connection:
        before = enqueue(connection, session()).id
    statements: list[str] = []
    sa.event.listen(cluster.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    groups = [
        group(f"r{n}", replicas=replicas, resource_slots={"cpu": 1}, environ={"A": "x"}, bootstrap_script=f"boot {n}")
        for n in range(3)
    ]
    with cluster.engine.begin() as connection:
        assert enqueue(connection, session(*groups, depends_on=(before,))).kernels == 3 * replicas
    assert len(statements) == 10
    assert cluster.count("kernels") == 3 * replicas + 1
    assert cluster.count("resource_allocations") == 3 * replicas + 2
    assert cluster.rows("SELECT count(DISTINCT local_rank), max(local_rank) FROM kernels") == [
        (3 * replicas, 3 * replicas - 1)
    ]


def test_what_is_unknown_is_named_at_once_and_nothing_written(cluster: Any, session: Make, group: Make) -> None:
    spec = full(
        cluster,
        session,
        group,
        domain_name="nowhere",
        scaling_group_name="none",
        group_id=uuid4(),
        depends_on=(SessionID(int=9),),
    )
    bad = group("bad", image="cr.example.com:5000/stable/python:4", resource_slots={"tpu": 1, "cpu": 1})
    other = group("other", architecture="riscv64")
    before = cluster.counts()
    with cluster.engine.begin() as connection:
        with pytest.raises(SpecError) as caught:
            enqueue(connection, spec.model_copy(update={"groups": (*spec.groups, bad, other)}))
        assert connection.execute(sa.text("SELECT pg_current_xact_id_if_assigned() IS NULL")).scalar_one()
    assert [str(problem).split(":")[0] for problem in caught.value.problems] == [
        "field groups.2.image",
        "field groups.3.image",
        "field groups.2.resource_slots",
        "field domain_name",
        "field group_id",
        "field scaling_group_name",
        "field depends_on",
    ]
    assert "there is no image 'cr.example.com:5000/stable/python:3.13' for 'riscv64'" in str(caught.value)
    assert cluster.counts() == before


def test_an_ambiguous_image_is_refused_with_its_candidates(cluster: Any, session: Make, group: Make) -> None:
    ids = [row[0] for project, name in (("a", "b/c"), ("a/b", "c")) for row in _insert_image(cluster, project, name)]
    with cluster.engine.begin() as connection, pytest.raises(SpecError) as caught:
        enqueue(connection, session(group(image="r/a/b/c:t")))
    (problem,) = caught.value.problems
    assert problem.message == (
        f"the image 'r/a/b/c:t' for 'x86_64' is ambiguous, it may be any of {', '.join(sorted(map(str, ids)))}"
    )
    cluster.run("DELETE FROM images WHERE project = 'a'")
    with cluster.engine.begin() as connection:
        enqueue(connection, session(group(image="r/a/b/c:t")))
    assert cluster.rows("SELECT image_id FROM kernel_groups") == [(ids[1],)]


def test_an_image_without_a_project(cluster: Any, session: Make, group: Make) -> None:
    ((id_,),) = _insert_image(cluster, "", "solo")
    with cluster.engine.begin() as connection:
        enqueue(connection, session(group(image="r/solo:t")))
    assert cluster.rows("SELECT image_id, registry FROM kernels") == [(id_, "r")]


def _insert_image(cluster: Any, project: str, name: str) -> list[tuple[UUID]]:
    with cluster.engine.begin() as connection:
        return [
            tuple(row)
            for row in connection.execute(
                sa.text(
                    "INSERT INTO images (registry, project, name, tag, architecture)"
                    " VALUES ('r', :project, :name, 't', 'x86_64') RETURNING id"
                ),
                {"project": project, "name": name},
            )
        ]


def test_the_same_session_twice_is_a_conflict_and_the_transaction_goes_on(cluster: Any, session: Make) -> None:
    id_ = SessionID(int=7)
    with cluster.engine.begin() as connection:
        enqueue(connection, session(id=id_))
        with pytest.raises(SessionConflictError, match=str(id_)):
            enqueue(connection, session(id=id_))
    assert (cluster.count("sessions"), cluster.count("kernel_groups"), cluster.count("kernels")) == (1, 1, 1)
    with cluster.engine.begin() as connection, pytest.raises(SessionConflictError):
        enqueue(connection, session(id=id_))


def test_a_name_is_free_again_when_its_session_has_ended(cluster: Any, session: Make) -> None:
    named = {"name": "n", "user_uuid": UserID(int=1)}
    with cluster.engine.begin() as connection:
        enqueue(connection, session(**named))
        with pytest.raises(SessionConflictError, match="'n' of user 00000000"):
            enqueue(connection, session(**named))
        enqueue(connection, session(name="n", user_uuid=UserID(int=2)))
    cluster.run("UPDATE sessions SET status = 'TERMINATED'")
    with cluster.engine.begin() as connection:
        enqueue(connection, session(**named))
    assert cluster.count("sessions") == 3


def test_the_same_session_at_the_same_time(cluster: Any, session: Make) -> None:
    """The second waits for the first: a conflict when that commits, a session of its own when that rolls back."""
    for end, outcome in (("commit", "conflict"), ("rollback", "written")):
        id_ = SessionID(uuid4().hex)
        outcomes: list[str] = []

        def second(id_: SessionID = id_, outcomes: list[str] = outcomes) -> None:
            try:
                with cluster.engine.begin() as connection:
                    enqueue(connection, session(id=id_))
                outcomes.append("written")
            except SessionConflictError:
                outcomes.append("conflict")

        with cluster.engine.connect() as first:
            enqueue(first, session(id=id_))
            thread = threading.Thread(target=second)
            thread.start()
            wait_until_blocked(cluster)
            getattr(first, end)()
        thread.join()
        assert outcomes == [outcome]
        assert cluster.rows("SELECT count(*) FROM sessions WHERE id = :id", id=id_) == [(1,)]
        assert cluster.rows("SELECT count(*) FROM kernel_groups WHERE session_id = :id", id=id_) == [(1,)]


def test_the_same_new_script_at_the_same_time(cluster: Any, session: Make, group: Make) -> None:
    with cluster.engine.connect() as first:
        enqueue(first, session(group(bootstrap_script="shared")))

        def second() -> None:
            with cluster.engine.begin() as connection:
                enqueue(connection, session(group(bootstrap_script="shared")))

        thread = threading.Thread(target=second)
        thread.start()
        wait_until_blocked(cluster)
        first.commit()
    thread.join()
    assert cluster.rows("SELECT count(*), count(DISTINCT bootstrap_script_revision_id) FROM kernel_groups") == [(2, 1)]


def test_scripts_are_stored_in_one_order_whatever_the_groups(cluster: Any, session: Make, group: Make) -> None:
    """By digest: who waits for the first has not stored the second yet, so that two enqueues cannot deadlock."""
    low, high = sorted(["boot", "other"], key=lambda script: hashlib.sha256(script.encode()).hexdigest())
    spec = session(group(bootstrap_script=high), group("worker", bootstrap_script=low))

    def second() -> None:
        with cluster.engine.begin() as connection:
            enqueue(connection, spec)

    with cluster.engine.connect() as first:
        enqueue(first, session(group(bootstrap_script=low)))
        thread = threading.Thread(target=second)
        thread.start()
        wait_until_blocked(cluster)
        enqueue(first, session(group(bootstrap_script=high)))
        first.commit()
    thread.join()
    assert cluster.rows("SELECT count(*), count(DISTINCT bootstrap_script_revision_id) FROM kernel_groups") == [(4, 2)]


def test_a_script_that_is_deleted_at_the_same_time_is_stored_again(cluster: Any, session: Make, group: Make) -> None:
    cluster.run("INSERT INTO bootstrap_script_revisions (digest, script) VALUES (:d, 'boot')", d=BOOT_DIGEST)
    with cluster.engine.connect() as cleaning:
        cleaning.execute(sa.text("DELETE FROM bootstrap_script_revisions"))

        def second() -> None:
            with cluster.engine.begin() as connection:
                enqueue(connection, session(group(bootstrap_script="boot")))

        thread = threading.Thread(target=second)
        thread.start()
        wait_until_blocked(cluster)
        cleaning.commit()
    thread.join()
    assert cluster.rows(
        "SELECT b.script, k.bootstrap_script FROM kernels AS k JOIN kernel_groups AS g ON g.id = k.kernel_group_id"
        " LEFT JOIN bootstrap_script_revisions AS b ON b.id = g.bootstrap_script_revision_id"
    ) == [("boot", "boot")]


def test_dependencies_are_locked_and_written(cluster: Any, session: Make) -> None:
    with cluster.engine.begin() as connection:
        first, second = (enqueue(connection, session()).id for _ in range(2))
    with cluster.engine.connect() as connection:
        third = enqueue(connection, session(depends_on=(second, first, second))).id
        with cluster.engine.begin() as other, pytest.raises(sa.exc.OperationalError, match="could not obtain lock"):
            other.execute(sa.text("SELECT FROM sessions WHERE id = :id FOR UPDATE NOWAIT"), {"id": first})
        connection.commit()
    assert cluster.rows("SELECT session_id, depends_on FROM session_dependencies ORDER BY depends_on") == [
        (third, id_) for id_ in sorted([first, second])
    ]


def test_a_dependency_that_is_deleted_at_the_same_time_is_named(cluster: Any, session: Make) -> None:
    """The enqueue waits for its end before it writes anything, and is not refused by a foreign key later."""
    with cluster.engine.begin() as connection:
        needed = enqueue(connection, session()).id
    found: list[str] = []

    def second() -> None:
        with cluster.engine.begin() as connection, pytest.raises(SpecError) as caught:
            enqueue(connection, session(depends_on=(needed,)))
        found.extend(map(str, caught.value.problems))

    with cluster.engine.connect() as removing:
        for table in ("kernels", "kernel_group_resource_slots", "kernel_groups", "sessions"):
            removing.execute(sa.text(f"DELETE FROM {table}"))
        thread = threading.Thread(target=second)
        thread.start()
        wait_until_blocked(cluster)
        removing.commit()
    thread.join()
    assert found == [f"field depends_on: there is no session {needed}"]


def test_a_connection_in_autocommit_is_refused(cluster: Any, session: Make) -> None:
    autocommit = cluster.engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection, pytest.raises(UsageError, match="autocommit"):
        enqueue(connection, session())
    assert cluster.count("sessions") == 0


def test_a_database_error_shows_no_environment_value(cluster: Any, session: Make, group: Make) -> None:
    cluster.run("DROP TABLE kernel_group_environ")
    talkative = sa.create_engine(cluster.url, poolclass=sa.NullPool)
    with talkative.connect() as connection, pytest.raises(sa.exc.ProgrammingError, match="does not exist") as caught:
        enqueue(connection, session(group(environ={"TOKEN": "s3cret"})))
    assert "s3cret" not in str(caught.value)
    assert "kernel_group_environ" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "check"), [("kernel_group_environ", "length(value) < 3"), ("kernels", "environ IS NULL")]
)
def test_a_refused_row_is_not_quoted(cluster: Any, session: Make, group: Make, table: str, check: str) -> None:
    """PostgreSQL's DETAIL quotes a row that a constraint refuses, whichever table holds the values."""
    cluster.run(f"ALTER TABLE {table} ADD CONSTRAINT strict CHECK ({check})")
    spec = session(group(environ={"TOKEN": "s3cret"}))
    talkative = sa.create_engine(cluster.url, poolclass=sa.NullPool)
    with talkative.connect() as connection, pytest.raises(sa.exc.IntegrityError, match='constraint "strict"') as caught:
        enqueue(connection, spec)
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in shown
    assert f'new row for relation "{table}" violates check constraint "strict"' in str(caught.value)
    assert (caught.value.orig.sqlstate, caught.value.orig.diag.constraint_name) == ("23514", "strict")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": SessionID(int=7)}, "there is already a session with the id 00000000-0000-0000-0000-000000000007"),
        (
            {"id": SessionID(int=7), "name": "n"},
            "there is already a session with the id 00000000-0000-0000-0000-000000000007",
        ),
        (
            {"id": SessionID(int=7), "name": "n", "user_uuid": UserID(int=1)},
            "there is already a session with the id 00000000-0000-0000-0000-000000000007 or one with the name 'n' of"
            " user 00000000-0000-0000-0000-000000000001, which has not ended",
        ),
        (
            {"name": "n", "user_uuid": UserID(int=1)},
            "there is already a session with the name 'n' of user 00000000-0000-0000-0000-000000000001,"
            " which has not ended",
        ),
    ],
)
def test_a_conflict_names_what_is_taken(cluster: Any, session: Make, fields: dict[str, object], message: str) -> None:
    with cluster.engine.begin() as connection:
        enqueue(connection, session(**fields))
        with pytest.raises(SessionConflictError) as caught:
            enqueue(connection, session(**fields))
    assert caught.value.message == message


def wait_until_blocked(cluster: Any) -> None:
    for _ in range(500):
        if cluster.rows("SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"):
            return
        threading.Event().wait(0.01)
    raise AssertionError("nobody waited for a lock")
