"""What every catalog object has in common: a kind, an identity, what it is part of, and attributes to compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self


class Kind(StrEnum):
    """Kinds of catalog objects, in the order in which they are created and reported."""

    DATABASE = "database"
    SETTING = "setting"
    SCHEMA = "schema"
    EXTENSION = "extension"
    FOREIGN_DATA_WRAPPER = "foreign data wrapper"
    FOREIGN_SERVER = "foreign server"
    USER_MAPPING = "user mapping"
    COLLATION = "collation"
    ENUM = "enum"
    DOMAIN = "domain"
    TYPE = "type"
    SEQUENCE = "sequence"
    FUNCTION = "function"
    TABLE = "table"
    COLUMN = "column"
    CONSTRAINT = "constraint"
    VIEW = "view"
    INDEX = "index"
    STATISTICS = "statistics"
    RULE = "rule"
    TRIGGER = "trigger"
    POLICY = "policy"
    OTHER = "object"
    DEFAULT_PRIVILEGES = "default privileges"
    PUBLICATION = "publication"
    SUBSCRIPTION = "subscription"
    EVENT_TRIGGER = "event trigger"


class Key(NamedTuple):
    """What identifies an object in a snapshot; the identity is quoted as PostgreSQL quotes it."""

    kind: Kind
    identity: str


@dataclass(frozen=True, slots=True)
class CatalogObject:
    """Base of the objects. A subclass's fields are the columns of its query, in their order."""

    kind: ClassVar[Kind]
    keys: ClassVar[frozenset[str]]
    """Fields that make the identity, or that are told by another attribute: never compared themselves."""

    @property
    def identity(self) -> str:
        """Quoted name, unique among the objects of its kind."""
        raise NotImplementedError

    @property
    def key(self) -> Key:
        """Kind and identity."""
        return Key(self.kind, self.identity)

    @property
    def containers(self) -> tuple[Key, ...]:
        """The objects that this one goes with: when any of them is dropped, it is gone too."""
        return ()

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """The object of a query's row; arrays become tuples, so that it can be hashed."""
        return cls(*[tuple(value) if isinstance(value, list) else value for value in row])

    def attributes(self) -> dict[str, object]:
        """Everything that is compared, by the name that a report shows."""
        return {
            field.name.replace("_", " "): getattr(self, field.name)
            for field in fields(self)
            if field.name not in self.keys
        }


@dataclass(frozen=True)
class Source:
    """One query of the snapshot: its text for a server version, and the class of its rows."""

    type: type[CatalogObject]
    sql: Callable[[int], str]
    """Takes the server's version number, such as 150018."""


def in_schema(schema: str, name: str) -> str:
    """Identity of a member of a schema, both already quoted."""
    return f"{schema}.{name}"
