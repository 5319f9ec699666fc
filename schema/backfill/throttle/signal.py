"""What a signal is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from psycopg import Connection

from schema.backfill.job import Job, Row


class Unit(StrEnum):
    """What a signal's value counts."""

    BYTES = "bytes"
    SECONDS = "seconds"
    BYTES_PER_SECOND = "bytes per second"
    FILES = "files"
    RATIO = "dead rows per live one"
    TRANSACTIONS = "transactions"
    TABLES = "tables"


class UnreadableError(Exception):
    """A signal cannot be read; the message says why. The backfill is held as if it were over its limit."""


class Signal(ABC):
    """One figure of the server, and the limit above which no batch is begun."""

    name: ClassVar[str]
    limit: ClassVar[float]
    unit: ClassVar[Unit]

    @abstractmethod
    def read(self, connection: Connection[Row], job: Job) -> float:
        """Return the figure now, in the caller's transaction; 0 where there is nothing to measure.

        Raises:
            UnreadableError: it cannot be known.
            psycopg.Error: the server says no.
        """


@dataclass(frozen=True)
class Hold:
    """Why no batch is begun."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"
