"""Default privileges."""

from schema.drift.comparators.base import Comparator, granted
from schema.pg.catalog import Kind
from schema.pg.catalog.privileges import DefaultPrivileges


class DefaultPrivilegesComparator(Comparator):
    """What ALTER DEFAULT PRIVILEGES set."""

    kinds = (Kind.DEFAULT_PRIVILEGES,)

    def summary(self, found: DefaultPrivileges) -> str | None:
        """All of them."""
        return "\n".join(found.privileges)

    def created(self, wanted: DefaultPrivileges) -> list[str]:
        """GRANT each."""
        return _altered(wanted, wanted.privileges, ())

    def dropped(self, found: DefaultPrivileges) -> list[str]:
        """REVOKE each."""
        return _altered(found, (), found.privileges)

    def altered(self, wanted: DefaultPrivileges, found: DefaultPrivileges, attribute: str) -> list[str]:
        """GRANT and REVOKE what differs."""
        return _altered(wanted, wanted.privileges, found.privileges)


def _altered(default: DefaultPrivileges, wanted: tuple[str, ...], found: tuple[str, ...]) -> list[str]:
    where = f"ALTER DEFAULT PRIVILEGES FOR ROLE {default.owner}" + (
        f" IN SCHEMA {default.schema} " if default.schema else " "
    )
    # In this statement objects are named by their kind alone.
    return [
        where + statement.replace(f" ON {default.objects.upper()}  ", f" ON {default.objects.upper()} ")
        for statement in granted(default.objects.upper(), "", default.owner, wanted, found)
    ]
