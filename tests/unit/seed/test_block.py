"""Blocks: the same text everywhere, made independently of one another."""

import hashlib
import random

import pytest

from schema.models import metadata
from schema.seed.block import BLOCK_SIZE, Block, History, make_block
from schema.seed.cluster import SLOT_TYPES, cluster, images, shared_rows, tenant_rows
from schema.seed.copytext import BLOCK_TABLES, COLUMNS, array_field, escape, json_field
from schema.seed.drafting import Pools
from schema.seed.profile import Profile

DIGEST = "fb9d11a392c5a13de3a5b75a3d0c6b873d4f7e20149088894eeb02a4e19a28c7"
"""Of seed 7. It is the same on Python 3.11 to 3.14; whoever changes what is seeded writes down the new one."""


def blocks(sessions: int, profile: Profile = Profile.ERAS, seed: int = 7) -> list[Block]:
    history = History(seed, profile, sessions)
    pools = Pools.of(seed, cluster(seed, images()))
    return [make_block(history, pools, number) for number in range(history.blocks)]


def test_the_same_text_on_every_python() -> None:
    digest = hashlib.sha256()
    for profile in Profile:
        for block in blocks(2500, profile):
            for table in BLOCK_TABLES:
                digest.update("".join(block[table]).encode())
    digest.update(repr((tenant_rows(7, cluster(7, images())), shared_rows(images()))).encode())
    assert digest.hexdigest() == DIGEST


def test_blocks_are_independent() -> None:
    history = History(7, Profile.ERAS, 3 * BLOCK_SIZE)
    pools = Pools.of(7, cluster(7, images()))
    assert make_block(history, pools, 2) == blocks(3 * BLOCK_SIZE)[2]


def test_seeds_differ_in_every_row() -> None:
    (one,), (other,) = blocks(200, seed=1), blocks(200, seed=2)
    for table in BLOCK_TABLES:
        assert set(one[table]) & set(other[table]) == set()


def test_only_generators_whose_sequence_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything of `random` that is built on `random()` and `getrandbits()` may change with Python's release."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("choice", "choices", "randint", "randrange", "sample", "shuffle", "uniform", "gauss", "_randbelow"):
        monkeypatch.setattr(random.Random, name, refuse)
    assert len(blocks(500)[0]["sessions"]) == 500


def test_lines_have_a_field_for_every_column() -> None:
    for block in blocks(2500):
        for table in BLOCK_TABLES:
            assert {line.count("\t") + 1 for line in block[table]} == {len(COLUMNS[table])}
            assert {line.count("\n") for line in block[table]} == {1}


def test_columns_are_the_models() -> None:
    for table, columns in COLUMNS.items():
        assert set(columns) <= {column.name for column in metadata.tables[table].columns}, table
        assert len(set(columns)) == len(columns)
    assert list(COLUMNS)[-5:] == list(BLOCK_TABLES)


def test_slot_names_in_use_are_slot_types() -> None:
    used = {line.split("\t")[1] for line in blocks(2000)[0]["resource_allocations"]}
    assert used <= {name for name, *_ in SLOT_TYPES}
    assert len(used) > 10


def test_copy_text() -> None:
    assert escape("a\\b\tc\nd\re") == "a\\\\b\\tc\\nd\\re"
    assert array_field(['K="v\\', None, "", "A\nB"]) == '{"K=\\\\"v\\\\\\\\",NULL,"","A\\nB"}'
    assert json_field({"A": "x\ny"}) == '{"A": "x\\\\ny"}'
