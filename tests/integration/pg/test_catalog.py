"""A snapshot holds every kind of object, is one consistent look, and disturbs nobody."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import psycopg
import pytest

from schema.drift.comparators import comparator
from schema.drift.compare import compare
from schema.errors import DatabaseError
from schema.pg.catalog import CatalogChangedError, Key, Kind, Snapshot, read_snapshot, snapshot
from schema.pg.catalog.columns import Column
from schema.pg.catalog.sequences import Sequence
from schema.pg.catalog.store import dump_snapshot, load_snapshot
from schema.pg.scratch import ScratchServer
from tests.conftest import EMBEDDED, Server
from tests.support.drift import clone, drop, plain

DATA = Path(__file__).parents[2] / "data/drift"
SINK = (DATA / "kitchen_sink.sql").read_text()
CHANGES = (DATA / "kitchen_sink_changes.sql").read_text()


@pytest.fixture(scope="module")
def sink_url(server: Server) -> Iterator[str]:
    url = clone(server.url("postgres"), "template0")
    with psycopg.connect(plain(url), autocommit=True) as connection:
        connection.execute(SINK)
        yield url
        connection.execute("ALTER SUBSCRIPTION sink_subscription SET (slot_name = NONE)")
        connection.execute("DROP SUBSCRIPTION sink_subscription")
    drop(url)


@pytest.fixture
def connection(sink_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(plain(sink_url)) as connection:
        yield connection


def test_every_kind_is_read(connection: psycopg.Connection) -> None:
    assert {key.kind for key in read_snapshot(connection).objects} == set(Kind)


NEVER_DIFFERS = {
    # One database has one of each; a comparison of two is in the tests of drift.
    *(("Database", name) for name in ("name", "encoding", "collation", "character_type", "locale_provider", "locale")),
    # A tablespace is a folder of the server's host.
    *((name, "tablespace") for name in ("Table", "View", "Index")),
    # An enabled subscription begins to work.
    ("Subscription", "enabled"),
}
SINCE = {
    ("Constraint", "enforced"): 18,
    ("Column", "not_null_constraint"): 18,
    ("Column", "not_null_state"): 18,
    ("Publication", "generated_columns"): 18,
}
ICU_COLLATION = "CREATE COLLATION other_collation (provider = icu, locale = 'und', deterministic = false)"
BUILTIN_COLLATION = "CREATE COLLATION other_collation (provider = builtin, locale = 'C.UTF-8')"
RECENT = {
    18: "ALTER TABLE sink_child ADD CONSTRAINT lax CHECK (b > 1) NOT ENFORCED, ADD NOT NULL extra NOT VALID;"
    "CREATE PUBLICATION newer_publication WITH (publish_generated_columns = stored);",
}


def test_every_attribute_of_every_kind_is_read(connection: psycopg.Connection, major: str) -> None:
    # A column left out of a query, or one that is always the same, has one value in all the objects of both moments.
    before = read_snapshot(connection)
    with connection.transaction(force_rollback=True):
        connection.execute(CHANGES)
        # The embedded server is built without ICU.
        icu = major != EMBEDDED
        connection.execute(ICU_COLLATION if icu else BUILTIN_COLLATION)
        connection.execute("ALTER COLLATION other_collation OWNER TO sink_other")
        for since, statements in RECENT.items():
            if int(major) >= since:
                connection.execute(statements)
        after = read_snapshot(connection)
    values: dict[tuple[str, str], set[object]] = defaultdict(set)
    for found in (*before.objects.values(), *after.objects.values()):
        for field in fields(found):
            values[type(found).__name__, field.name].add(getattr(found, field.name))
    unknown = {name for name, since in SINCE.items() if int(major) < since}
    unknown |= {("Collation", "rules")} if not icu or int(major) < 16 else set()
    unknown |= set() if icu else {("Collation", "deterministic")}
    assert {name for name, seen in values.items() if len(seen) < 2} == NEVER_DIFFERS | unknown
    # And every kind has a comparator, which leaves none of them out: a domain's constraints are told one by one, and
    # whether a view was refreshed is data.
    told_otherwise = {"constraints", "populated"}
    for found in after.objects.values():
        assert comparator(found.kind).attributes(found).keys() >= found.attributes().keys() - told_otherwise


def test_secrets_are_not_read(connection: psycopg.Connection) -> None:
    assert "do-not-read" not in json.dumps(dump_snapshot(read_snapshot(connection)))


def test_what_belongs_to_an_extension_is_left_out(connection: psycopg.Connection) -> None:
    found = read_snapshot(connection)
    assert Key(Kind.EXTENSION, "file_fdw") in found.objects
    assert not any("file_fdw" in key.identity for key in found.objects if key.kind == Kind.FUNCTION)
    assert Key(Kind.FOREIGN_DATA_WRAPPER, "file_fdw") not in found.objects


def test_the_same_statements_give_the_same_snapshot(server: Server, connection: psycopg.Connection) -> None:
    url = clone(server.url("postgres"), "template0")
    try:
        with psycopg.connect(plain(url)) as other, other.transaction(force_rollback=True):
            # A subscription is the cluster's business, and its name is taken.
            other.execute(SINK.replace("sink_subscription", "sink_another"))
            again = read_snapshot(other)
    finally:
        drop(url)
    assert [each.title for each in compare(read_snapshot(connection), again)] == [
        "subscription sink_another extra",
        "subscription sink_subscription missing",
    ]


def test_a_stored_snapshot_is_the_same(connection: psycopg.Connection) -> None:
    found = read_snapshot(connection)
    stored = load_snapshot(json.loads(json.dumps(dump_snapshot(found))))
    assert stored == Snapshot(found.database, found.server_version, stored.objects)
    assert dict(stored.objects) == dict(found.objects)


class Counting(psycopg.Connection):
    """Counts the messages that wait for an answer."""

    trips = 0

    def wait(self, *arguments: Any, **keywords: Any) -> Any:
        self.trips += 1
        return super().wait(*arguments, **keywords)


def test_the_number_of_round_trips_is_small_and_fixed(sink_url: str, empty_database: str) -> None:
    trips = []
    for url in (sink_url, empty_database):
        with Counting.connect(plain(url)) as connection:
            before = connection.trips
            read_snapshot(connection)
            trips.append(connection.trips - before)
    assert trips[0] == trips[1] <= 15


def test_within_a_transaction_its_own_work_is_seen_and_its_settings_stay(connection: psycopg.Connection) -> None:
    connection.execute("SET search_path = 'Odd schema'")
    connection.execute("CREATE TABLE fresh (a int)")
    assert Key(Kind.TABLE, '"Odd schema".fresh') in read_snapshot(connection).objects
    assert connection.execute("SHOW search_path").fetchone() == ('"Odd schema"',)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    connection.rollback()
    assert Key(Kind.TABLE, '"Odd schema".fresh') not in read_snapshot(connection).objects
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_the_settings_of_the_session_do_not_matter(connection: psycopg.Connection) -> None:
    expected = read_snapshot(connection)
    connection.execute(
        "SET search_path = public; SET TimeZone = 'Asia/Seoul'; SET DateStyle = 'SQL, DMY';"
        "SET quote_all_identifiers = on; SET bytea_output = 'escape'; SET extra_float_digits = 0"
    )
    connection.commit()
    assert read_snapshot(connection) == expected


def test_excluded_tables_go_with_all_that_is_theirs(connection: psycopg.Connection) -> None:
    kept = read_snapshot(connection, exclude={"public.sink_parent"}).objects
    gone = read_snapshot(connection).objects.keys() - kept.keys()
    assert Key(Kind.TABLE, "public.sink_parent") in gone
    assert Key(Kind.COLUMN, "public.sink_parent.note") in gone
    assert Key(Kind.INDEX, "public.sink_kind of public.sink_2026") in gone
    assert Key(Kind.TABLE, "public.sink_child") in kept
    assert {key.identity.partition(".")[2].partition(".")[0] for key in gone if key.kind == Kind.COLUMN} == {
        "sink_parent"
    }


def test_details_that_are_easily_lost(connection: psycopg.Connection) -> None:
    objects = read_snapshot(connection).objects
    identity = objects[Key(Kind.COLUMN, "public.sink_parent.id")]
    assert isinstance(identity, Column)
    assert identity.identity_options == "ALWAYS START 5 INCREMENT 1 CACHE 2"
    assert identity.identity_comment == "c"
    assert "USAGE TO PUBLIC" in identity.identity_privileges
    down = objects[Key(Kind.SEQUENCE, "public.sink_down")]
    assert isinstance(down, Sequence)
    assert (down.start, down.bounds, down.cycle) == (100, " MAXVALUE 100", True)
    reference = objects[Key(Kind.CONSTRAINT, "public.sink_child.sink_reference")]
    assert reference.attributes() | {"definition": ""} == {
        "sort": "FOREIGN KEY",
        "definition": "",
        # CREATE TABLE takes NOT VALID and knows better: there are no rows.
        "validated": True,
        "enforced": True,
        "deferrable": "DEFERRABLE INITIALLY DEFERRED",
        "no inherit": False,
        # Those on the referenced table are still enabled.
        "triggers": "disabled, enabled",
        "comment": None,
    }
    assert str(reference.attributes()["definition"]).endswith("MATCH FULL ON DELETE CASCADE")
    part = objects[Key(Kind.TRIGGER, "public.sink_rest.sink_touch")]
    assert part.attributes() == {"definition": None, "enabled": "disabled", "comment": None}


def test_a_change_during_the_reading_makes_it_start_anew(
    sink_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, reads = snapshot._run, []

    def interrupted(*arguments: Any) -> Any:
        rows = original(*arguments)
        reads.append(1)
        if len(reads) == 1:
            with psycopg.connect(plain(sink_url), autocommit=True) as other:
                other.execute("ALTER TABLE sink_child ADD COLUMN in_between int")
        return rows

    monkeypatch.setattr(snapshot, "_run", interrupted)
    try:
        found = read_snapshot(connection)
    finally:
        with psycopg.connect(plain(sink_url), autocommit=True) as other:
            other.execute("ALTER TABLE sink_child DROP COLUMN in_between")
    assert len(reads) == 2
    assert Key(Kind.COLUMN, "public.sink_child.in_between") in found.objects


def test_catalogs_that_never_rest_are_said(
    sink_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = snapshot._run

    def interrupted(*arguments: Any) -> Any:
        rows = original(*arguments)
        with psycopg.connect(plain(sink_url), autocommit=True) as other:
            other.execute(
                "CREATE TABLE restless (a int); DROP TABLE restless; ALTER TABLE sink_child SET (fillfactor = 90)"
            )
        return rows

    monkeypatch.setattr(snapshot, "_run", interrupted)
    with pytest.raises(CatalogChangedError, match="changed while they were read"):
        read_snapshot(connection)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_temporary_tables_and_plain_writes_disturb_nothing(
    sink_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, reads = snapshot._run, []

    def interrupted(*arguments: Any) -> Any:
        rows = original(*arguments)
        reads.append(1)
        with psycopg.connect(plain(sink_url), autocommit=True) as other:
            other.execute("CREATE TEMPORARY TABLE scratch (a int); INSERT INTO sink_grandchild (own) VALUES (1)")
            other.execute("ANALYZE sink_grandchild")
        return rows

    monkeypatch.setattr(snapshot, "_run", interrupted)
    read_snapshot(connection)
    assert len(reads) == 1


def test_a_standby_can_be_read(server: Server) -> None:
    with ScratchServer(server.bindir) as standby:
        url = standby.create_database("lagging")
        with psycopg.connect(plain(url), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text CHECK (b <> ''))")
            expected = read_snapshot(connection)
        standby.installation.stop(standby.folder)
        signal = standby.folder / "data/standby.signal"
        signal.touch()
        standby.installation.own(signal)
        standby.installation.start(standby.folder, {}, socket=standby.folder)
        with psycopg.connect(plain(url)) as connection:
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
            connection.commit()
            assert dict(read_snapshot(connection).objects) == dict(expected.objects)


def test_an_unknown_major_is_refused(connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "NEWEST", 150000)
    with pytest.raises(DatabaseError, match="catalogs that this version does not know"):
        read_snapshot(connection)
