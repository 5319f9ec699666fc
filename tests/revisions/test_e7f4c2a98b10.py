import pytest

from tests.support.history import Database

PARENTS = ("51d33226c0a5", "c9e1b7a4d2f0")


def test_merge_heads(database: Database) -> None:
    for parent in PARENTS:
        database.upgrade(parent, yes=True)
    database.seed(1)
    assert database.current() == PARENTS
    before = database.catalog()
    database.upgrade("e7f4c2a98b10")
    assert database.current() == ("e7f4c2a98b10",)
    assert database.catalog() == before
    database.downgrade("51d33226c0a5", yes=True)
    assert set(PARENTS) >= set(database.current())
    assert database.value("SELECT count(*) FROM sessions") == 1


@pytest.mark.parametrize("first", PARENTS)
def test_either_parent_may_have_come_first(database: Database, first: str) -> None:
    database.upgrade(first)
    database.upgrade("e7f4c2a98b10")
    assert database.current() == ("e7f4c2a98b10",)
    assert database.constraint("ck_storage_volumes_name_format") is not None
    assert database.index("ix_session_dependencies_depends_on") is not None
