from uuid import UUID, uuid4

import pytest

from schema import identity
from schema.environ import ENVIRON_KEY_MAX_LENGTH
from schema.identity import EntityId, EnvironKey, KernelGroupID, KernelGroupRole, NaturalKey, ResourceSlotName
from schema.models.columns import GUID, NaturalKeyColumn


def test_an_id_is_its_uuid_and_knows_its_kind() -> None:
    plain = uuid4()
    typed = KernelGroupID.of(plain)
    assert typed == plain
    assert hash(typed) == hash(plain)
    assert type(typed) is KernelGroupID
    assert isinstance(typed, UUID)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (KernelGroupRole, "kernel_group_role"),
        (ResourceSlotName, "slot_name"),
        (EnvironKey, "environ_key"),
    ],
)
def test_a_natural_key_names_itself(kind: type[NaturalKey], name: str) -> None:
    assert kind.key_name() == name


def test_the_key_length_is_one_number() -> None:
    assert EnvironKey.max_length == ENVIRON_KEY_MAX_LENGTH


def test_every_kind_of_id_says_what_it_is() -> None:
    kinds = [kind for kind in vars(identity).values() if isinstance(kind, type) and issubclass(kind, EntityId)]
    assert len(kinds) > 10
    assert all(kind.__doc__ for kind in kinds)
    assert not hasattr(KernelGroupID(int=1), "__dict__")


def test_columns_read_back_as_their_kind() -> None:
    from sqlalchemy.dialects import postgresql

    dialect = postgresql.dialect()
    plain = uuid4()
    assert type(GUID(KernelGroupID).process_result_value(plain, dialect)) is KernelGroupID
    role = NaturalKeyColumn(KernelGroupRole).process_result_value("main", dialect)
    assert (type(role), role) == (KernelGroupRole, "main")
    assert GUID(KernelGroupID).process_result_value(None, dialect) is None
    assert NaturalKeyColumn(KernelGroupRole).process_result_value(None, dialect) is None
