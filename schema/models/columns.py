"""Column types and columns that several tables share."""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import DateTime, Dialect, Numeric, String, Uuid, func, text
from sqlalchemy.orm import mapped_column
from sqlalchemy.types import TypeDecorator

from schema.identity import EntityId, NaturalKey

IdT = TypeVar("IdT", bound=EntityId)
KeyT = TypeVar("KeyT", bound=NaturalKey)


class GUID(TypeDecorator[IdT], Generic[IdT]):
    """A uuid column that reads back as its kind of id: `GUID(KernelGroupID)`."""

    impl = Uuid
    cache_ok = True

    def __init__(self, kind: type[IdT]) -> None:
        super().__init__(as_uuid=True)
        self.kind = kind

    def process_result_value(self, value: Any, dialect: Dialect) -> IdT | None:  # noqa: D102
        return None if value is None else self.kind(int=value.int)

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> UUID | None:  # noqa: D102
        return value


class NaturalKeyColumn(TypeDecorator[KeyT], Generic[KeyT]):
    """A varchar column, as long as its kind of key says, that reads back as that kind."""

    impl = String
    cache_ok = True

    def __init__(self, kind: type[KeyT]) -> None:
        super().__init__(kind.max_length)
        self.kind = kind

    def process_result_value(self, value: Any, dialect: Dialect) -> KeyT | None:  # noqa: D102
        return None if value is None else self.kind(value)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: D102
        # The driver adapts by exact type: a subclass of str would be looked up at every value.
        return None if value is None else str(value)


def id_default() -> Any:
    """Server default of the ids: time-ordered, so that index inserts append."""
    return text("uuid_generate_v7()")


Timestamp = DateTime(timezone=True)
"""timestamptz."""

SlotQuantity = Numeric(24, 6)
"""Exact quantity of a resource slot; bytes for memory."""

CreatedAt = Annotated[datetime | None, mapped_column(Timestamp, server_default=func.now())]
"""When the row was made; NULL in rows of releases that did not record it."""

RecordedAt = Annotated[datetime, mapped_column(Timestamp, server_default=func.now())]
"""When the row was made or last changed; never NULL."""
