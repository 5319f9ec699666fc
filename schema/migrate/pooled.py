"""A run behind a pooler, which gives each transaction, and each statement outside of one, to any session it likes."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import sqlalchemy as sa

from schema.errors import RevisionError
from schema.migrate.journal import shown
from schema.migrate.leftovers import waits_harmlessly

_SET = re.compile(
    r"\s*SET\s+(?:SESSION\s+)?(?!(?:LOCAL|TRANSACTION|CONSTRAINTS|CHARACTERISTICS|AUTHORIZATION|SESSION)\b)"
    r"(?P<what>(?P<name>TIME\s+ZONE|[\w.]+)\b[^;]*?)\s*;?\s*",
    re.IGNORECASE,
)
_RESET = re.compile(r"\s*RESET\s+(?P<name>TIME\s+ZONE|[\w.]+)\s*;?\s*", re.IGNORECASE)

# Without them an index command takes longer or waits longer, and comes to the same end.
_NOT_MISSED: Final = frozenset(
    {
        "lock_timeout",
        "statement_timeout",
        "idle_in_transaction_session_timeout",
        "maintenance_work_mem",
        "max_parallel_maintenance_workers",
    }
)


class PooledSettings:
    """The settings of a run's session, which it has none of its own: made in each transaction, and for that one only.

    A SET or RESET of a revision is remembered instead of run: it would stay behind in a session of others.
    """

    def __init__(self, connection: sa.Connection, wanted: Mapping[str, str], report: Callable[[str], None]) -> None:
        self._connection = connection
        self._wanted = wanted
        self._report = report
        self._told = False
        self._set: dict[str, str] = {}
        self._undo: list[str] = []

    def start(self) -> None:
        """A revision begins: what an earlier one has set is forgotten."""
        self._set.clear()

    def apply(self) -> None:
        """In a transaction that has just begun: make the settings."""
        calls = [f"set_config(:name{number}, :value{number}, true)" for number in range(len(self._wanted))]
        values = {
            f"{kind}{number}": text
            for number, pair in enumerate(self._wanted.items())
            for kind, text in zip(("name", "value"), pair, strict=True)
        }
        for statement in self._undo:
            self._connection.exec_driver_sql(statement)
        self._undo.clear()
        self._connection.execute(sa.text(f"SELECT {', '.join(calls)}"), values)
        for statement in self._set.values():
            self._connection.exec_driver_sql(statement)

    def takes(self, statement: str) -> bool:
        """Remember a SET or RESET. The caller runs `apply` in a transaction, where PostgreSQL judges it."""
        if found := _SET.fullmatch(statement):
            name = _key(found["name"])
            self._set.pop(name, None)
            self._set[name] = f"SET LOCAL {found['what']}".replace("%", "%%")
            return True
        if found := _RESET.fullmatch(statement):
            name = _key(found["name"])
            reset = list(self._set) if name == "all" else [name]
            self._undo += [f"SET LOCAL {one} TO DEFAULT" for one in reset]
            for one in reset:
                self._set.pop(one, None)
            return True
        return False

    def check_outside(self, statement: str) -> None:
        """Make sure that a statement can go without settings, outside of a transaction.

        Raises:
            RevisionError: it cannot.
        """
        missed = sorted(name for name in self._set if name not in _NOT_MISSED)
        if missed or not waits_harmlessly(statement):
            why = f"without the {', '.join(missed)} that the revision sets" if missed else "without the timeouts"
            raise RevisionError(
                f"the connection goes through a pooler, where {shown(statement)} would run {why}",
                hint="Name PostgreSQL itself with --url: the run goes on from there.",
            )
        if not self._told:
            self._told = True
            self._report(
                "Behind a pooler, indexes are made and dropped CONCURRENTLY without lock_timeout and statement_timeout."
            )


def _key(name: str) -> str:
    name = name.lower()
    return name if name.isidentifier() or "." in name else "timezone"
