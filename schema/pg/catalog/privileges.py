"""Default privileges; those of an object are told by the object."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Kind, Source
from schema.pg.catalog.fragments import acl


@dataclass(frozen=True, slots=True)
class DefaultPrivileges(CatalogObject):
    """What ALTER DEFAULT PRIVILEGES gives the objects that a role will make."""

    kind: ClassVar = Kind.DEFAULT_PRIVILEGES
    keys: ClassVar = frozenset({"owner", "schema", "objects"})

    owner: str
    """The role whose future objects are meant."""
    schema: str | None
    objects: str
    privileges: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Objects, schema and role."""
        return f"{self.objects} of {self.owner}" + ("" if self.schema is None else f" in {self.schema}")


def _default_privileges(version: int) -> str:
    return f"""
        SELECT d.defaclrole::regrole::text, quote_ident(n.nspname),
            CASE d.defaclobjtype WHEN 'r' THEN 'tables' WHEN 'S' THEN 'sequences' WHEN 'f' THEN 'functions'
                WHEN 'T' THEN 'types' WHEN 'n' THEN 'schemas' ELSE 'large objects' END,
            {acl("d.defaclacl", "r", "d.defaclrole")}
        FROM pg_default_acl AS d LEFT JOIN pg_namespace AS n ON n.oid = d.defaclnamespace"""


SOURCES = (Source(DefaultPrivileges, _default_privileges),)
