"""How key spaces are cut."""

import pytest

from schema.backfill import partition
from schema.backfill.job import Parent

RANDOM = "gen_random_uuid()"
TIMED = "uuid_generate_v7()"


@pytest.mark.parametrize(("ids", "kind"), [(RANDOM, "fixed"), (TIMED, "sampled")])
def test_uuids(connection, ids, kind):
    connection.autocommit = True
    connection.execute(f"CREATE TABLE t AS SELECT {ids} AS id FROM generate_series(1, 4000)")
    parts = partition.cut(connection, Parent("t", "id", "uuid"), chunk_size=1000, workers=1)
    assert (parts.kind, parts.expected, len(parts.bounds)) == (kind, 4000, 4)
    assert parts.bounds[0][0] is None
    assert parts.bounds[-1][1] is None
    assert [upper for _, upper in parts.bounds[:-1]] == [lower for lower, _ in parts.bounds[1:]]
    if kind == "fixed":
        assert parts.bounds[1] == ("40000000-0000-0000-0000-000000000000", "80000000-0000-0000-0000-000000000000")
    counts = connection.execute(
        "SELECT count(*) FROM t JOIN unnest(%s::uuid[], %s::uuid[]) AS b (lower, upper)"
        " ON (lower IS NULL OR id > lower) AND (upper IS NULL OR id <= upper) GROUP BY lower",
        ([lower for lower, _ in parts.bounds], [upper for _, upper in parts.bounds]),
    ).fetchall()
    assert sum(count for (count,) in counts) == 4000
    assert all(800 < count < 1200 for (count,) in counts)


def test_large_table_is_sampled_by_blocks(connection, monkeypatch):
    monkeypatch.setattr(partition, "SAMPLE_ROWS", 3900)
    connection.autocommit = True
    connection.execute("CREATE TABLE t AS SELECT n AS id, repeat('x', 1000) FROM generate_series(1, 20000) AS n")
    parts = partition.cut(connection, Parent("t", "id", "int4"), chunk_size=5000, workers=1)
    assert parts.kind == "sampled"
    uppers = [int(upper) for _, upper in parts.bounds[:-1]]
    assert uppers == sorted(uppers)
    # A fifth of some 2,900 blocks.
    assert len(uppers) == 3
    assert all(abs(upper - 5000 * place) < 2500 for place, upper in enumerate(uppers, 1))


def test_small_or_empty_table_is_one_chunk(connection):
    connection.autocommit = True
    connection.execute("CREATE TABLE t (id int)")
    parts = partition.cut(connection, Parent("t", "id", "int4"), chunk_size=10, workers=4)
    assert (parts.kind, parts.bounds, parts.expected) == ("whole", [(None, None)], 0)


def test_equal_keys_make_one_bound(connection):
    connection.autocommit = True
    connection.execute("CREATE TABLE t AS SELECT 7 AS id FROM generate_series(1, 100)")
    parts = partition.cut(connection, Parent("t", "id", "int4"), chunk_size=10, workers=1)
    assert parts.bounds == [(None, "7"), ("7", None)]
