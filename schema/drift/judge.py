"""Asks a server whether two texts mean the same: by printing them once more, and by folding constants."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import psycopg
from psycopg import sql

from schema.drift.comparators import comparator
from schema.drift.comparators.base import Probe
from schema.pg.catalog import CatalogObject

SAME_PRINT = "PostgreSQL prints both alike once they are created anew"
SAME_CONSTANT = "both evaluate to the same"
SAME_TIME = "two names of the transaction's time"

# SQL calls them by three names; the parser keeps CURRENT_TIMESTAMP apart from the function that it means.
_TRANSACTION_TIMES = frozenset({"now()", "CURRENT_TIMESTAMP", "transaction_timestamp()"})

_SETTINGS = """
    SET search_path = ''; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres';
    SET bytea_output = 'hex'; SET extra_float_digits = 1; SET quote_all_identifiers = off;
    SET check_function_bodies = off; SET client_min_messages = 'error'
"""


class Judge:
    """Tries texts out in a scratch database that holds the first side's schema, or in a transaction that made it.

    Every trial is rolled back to a savepoint. The statements take ACCESS EXCLUSIVE locks on the scratch database's own
    tables and wait for nobody: no other connection uses these.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        """Take what connects to the database; it is called when there is something to try, which is rare."""
        self._connect = connect

    @cached_property
    def _connection(self) -> psycopg.Connection[Any]:
        connection = self._connect()
        connection.execute(_SETTINGS)
        return connection

    def same(self, one: CatalogObject, other: CatalogObject, attribute: str) -> str | None:
        """Why two objects' attribute means the same; None when it does not, or cannot be tried."""
        judging = comparator(one.kind)
        texts = judging.text(one, attribute), judging.text(other, attribute)
        if None in texts:
            return None
        wanted, found = str(texts[0]), str(texts[1])
        if (type_name := judging.folded_as(one, other, attribute)) is not None:
            if {wanted, found} <= _TRANSACTION_TIMES:
                return SAME_TIME
            folded = self._folded(wanted, type_name)
            if folded is not None and folded == self._folded(found, type_name):
                return SAME_CONSTANT
        probe = judging.probe(one, attribute)
        if probe is None:
            return None
        printed = self._printed(probe, wanted)
        if printed is None:
            return None
        return SAME_PRINT if found == printed or self._printed(probe, found) in {wanted, printed} else None

    def _printed(self, probe: Probe, text: str) -> str | None:
        """How the server prints what it makes of a text, without what the comparison leaves out."""

        def trial() -> str | None:
            for statement in probe.statements(text):
                self._connection.execute(sql.SQL(statement))
            row = self._connection.execute(sql.SQL(probe.query)).fetchone()
            return None if row is None or row[0] is None else probe.cut(str(row[0]))

        return self._tried(trial)

    def _folded(self, expression: str, type_name: str) -> str | None:
        """The expression as the planner leaves it once it has evaluated all that is constant."""

        def trial() -> str | None:
            plan = f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) SELECT CAST(({expression}) AS {type_name})"
            row = self._connection.execute(sql.SQL(plan)).fetchone()
            return None if row is None else str(row[0][0]["Plan"]["Output"])

        return self._tried(trial)

    def _tried(self, trial: Callable[[], str | None]) -> str | None:
        try:
            with self._connection.transaction(force_rollback=True):
                return trial()
        except psycopg.Error:
            # It cannot be created here: then it is a difference.
            return None
