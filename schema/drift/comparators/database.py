"""The database and its settings."""

from typing import Any

from schema.drift.comparators.base import Comparator, literal
from schema.pg.catalog import Kind
from schema.pg.catalog.database import Setting


class DatabaseComparator(Comparator):
    """Encoding and locale can't be changed; privileges can, by name, which differs from one database to the next."""

    kinds = (Kind.DATABASE,)


class SettingComparator(Comparator):
    """ALTER DATABASE … SET and ALTER ROLE … SET."""

    kinds = (Kind.SETTING,)

    def summary(self, found: Any) -> str | None:
        """Name and value."""
        return f"{found.name} = {found.value}"

    def created(self, wanted: Setting) -> list[str]:
        """Set it."""
        return [f"{_where(wanted)} SET {wanted.name} TO {literal(wanted.value)}"]

    def dropped(self, found: Setting) -> list[str]:
        """Reset it."""
        return [f"{_where(found)} RESET {found.name}"]

    def altered(self, wanted: Setting, found: Setting, attribute: str) -> list[str]:
        """Set it to the value wanted."""
        return self.created(wanted)


def _where(setting: Setting) -> str:
    # psql fills in :"DBNAME": the same statement serves every copy of the database.
    database = 'DATABASE :"DBNAME"'
    if setting.role is None:
        return f"ALTER {database}"
    return f"ALTER ROLE {setting.role}" + ("" if setting.everywhere else f" IN {database}")
