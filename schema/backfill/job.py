"""What a backfill job is: what to write for some keys of a parent table. How to run it is the engine's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from psycopg import Connection

Row: TypeAlias = tuple[Any, ...]
Key: TypeAlias = UUID | int | str


@dataclass(frozen=True)
class Parent:
    """The table that a job walks, by its primary key, in the key's order."""

    table: str
    key: str
    key_type: str
    """Internal name of the key's type, such as `uuid` or `int8`: the ledger keeps keys as text."""


@dataclass(frozen=True)
class Finding:
    """Something that a verification found in one parent row. It never holds an environment value."""

    check: str
    """Name of the check, such as `unlinked`."""
    key: Key
    """Key of the parent row."""
    role: str | None
    detail: str
    """What differs, by name: a kernel's id, a column, a slot, an environment key."""
    fails: bool
    """False for what is only worth knowing."""


@dataclass(frozen=True)
class Preview:
    """What a job would write for some keys, by count, and what an operator should look at before."""

    counts: Mapping[str, int]
    findings: Sequence[Finding]


class Job(Protocol):
    """One kind of backfill. Every method takes keys of `parent` and works on all of them at once."""

    @property
    def name(self) -> str:
        """Its name in the ledger."""

    @property
    def parent(self) -> Parent:
        """The table it walks."""

    @property
    def new_tables(self) -> Sequence[str]:
        """The tables that it fills; they get statistics early on, as plans depend on them."""

    @property
    def updated_tables(self) -> Sequence[str]:
        """The tables of the application whose rows it changes; a vacuum of them is given way to."""

    def pending(self, connection: Connection[Row], after: str | None, upto: str | None, size: int) -> Sequence[Key]:
        """Return the next `size` keys, in order, after `after` and up to `upto`, whose rows have work left.

        The bounds are texts of keys; None is no bound. Reads only. The sweep writes these again.
        """

    def explain(self, connection: Connection[Row], run_id: UUID, keys: Sequence[Key]) -> Sequence[str]:
        """Return the plans of a batch's statements, line by line; writes nothing."""

    def write(self, connection: Connection[Row], run_id: UUID, keys: Sequence[Key]) -> Mapping[str, int]:
        """Write what the keys' rows need, in the caller's READ COMMITTED transaction, and return what was written.

        The parent rows are locked FOR KEY SHARE already. Writing the same keys again must change nothing. Rows for
        `backfill_rejects` are written here, and counted as `rejects`.
        """

    def preview(self, connection: Connection[Row], keys: Sequence[Key]) -> Preview:
        """Count what `write` would write; reads only."""

    def verify(self, connection: Connection[Row], keys: Sequence[Key]) -> Sequence[Finding]:
        """Hold what is there against what the rules give; reads only."""
