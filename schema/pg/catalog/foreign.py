"""Foreign data wrappers, foreign servers and user mappings."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source
from schema.pg.catalog.fragments import acl, comment, not_extension, options


@dataclass(frozen=True, slots=True)
class ForeignDataWrapper(CatalogObject):
    """A foreign data wrapper."""

    kind: ClassVar = Kind.FOREIGN_DATA_WRAPPER
    keys: ClassVar = frozenset({"name"})

    name: str
    handler: str
    validator: str
    options: tuple[str, ...]
    owner: str
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name


@dataclass(frozen=True, slots=True)
class ForeignServer(CatalogObject):
    """A foreign server."""

    kind: ClassVar = Kind.FOREIGN_SERVER
    keys: ClassVar = frozenset({"name"})

    name: str
    wrapper: str
    type: str | None
    version: str | None
    options: tuple[str, ...]
    owner: str
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its wrapper."""
        return (Key(Kind.FOREIGN_DATA_WRAPPER, self.wrapper),)


@dataclass(frozen=True, slots=True)
class UserMapping(CatalogObject):
    """Who is mapped on a foreign server. Its options hold passwords, so they are not read."""

    kind: ClassVar = Kind.USER_MAPPING
    keys: ClassVar = frozenset({"server", "user"})

    server: str
    user: str

    @property
    def identity(self) -> str:
        """Role and server."""
        return f"{self.user} on {self.server}"

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its server."""
        return (Key(Kind.FOREIGN_SERVER, self.server),)


def _wrappers(version: int) -> str:
    return f"""
        SELECT quote_ident(w.fdwname), w.fdwhandler::regproc::text, w.fdwvalidator::regproc::text,
            {options("w.fdwoptions")}, w.fdwowner::regrole::text, {acl("w.fdwacl", "F", "w.fdwowner")},
            {comment("pg_foreign_data_wrapper", "w.oid")}
        FROM pg_foreign_data_wrapper AS w WHERE {not_extension("pg_foreign_data_wrapper", "w.oid")}"""


def _servers(version: int) -> str:
    return f"""
        SELECT quote_ident(s.srvname), quote_ident(w.fdwname), s.srvtype, s.srvversion, {options("s.srvoptions")},
            s.srvowner::regrole::text, {acl("s.srvacl", "S", "s.srvowner")}, {comment("pg_foreign_server", "s.oid")}
        FROM pg_foreign_server AS s JOIN pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw
        WHERE {not_extension("pg_foreign_server", "s.oid")}"""


def _mappings(version: int) -> str:
    # pg_user_mapping itself is for superusers.
    return """
        SELECT quote_ident(m.srvname), CASE m.umuser WHEN 0 THEN 'PUBLIC' ELSE m.umuser::regrole::text END
        FROM pg_user_mappings AS m"""


SOURCES = (Source(ForeignDataWrapper, _wrappers), Source(ForeignServer, _servers), Source(UserMapping, _mappings))
