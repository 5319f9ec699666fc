"""The database itself, and the settings that ALTER DATABASE and ALTER ROLE leave."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Kind, Source
from schema.pg.catalog.fragments import acl


@dataclass(frozen=True, slots=True)
class Database(CatalogObject):
    """Encoding, locale and privileges. Its name is not compared: a scratch database has another."""

    kind: ClassVar = Kind.DATABASE
    keys: ClassVar = frozenset({"name"})

    name: str
    encoding: str
    collation: str
    character_type: str
    locale_provider: str
    locale: str | None
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """The same for every database, so that two are compared with each other."""
        return "database"


@dataclass(frozen=True, slots=True)
class Setting(CatalogObject):
    """One `name = value` that a session in this database starts with."""

    kind: ClassVar = Kind.SETTING
    keys: ClassVar = frozenset({"role", "everywhere", "name"})

    role: str | None
    everywhere: bool
    """Set for the role in every database of the cluster."""
    name: str
    value: str

    @property
    def identity(self) -> str:
        """The parameter, and the role it is for."""
        if self.role is None:
            return self.name
        return f"{self.name} for {self.role}" + (" in every database" if self.everywhere else "")


def _database(version: int) -> str:
    locale = "d.datlocale" if version >= 170000 else "d.daticulocale"
    return f"""
        SELECT quote_ident(d.datname), pg_encoding_to_char(d.encoding), d.datcollate, d.datctype,
            CASE d.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' ELSE 'builtin' END,
            {locale}, {acl("d.datacl", "d", "d.datdba")}, shobj_description(d.oid, 'pg_database')
        FROM pg_database AS d WHERE d.datname = current_database()"""


def _settings(version: int) -> str:
    # Settings of a role in every database concern this one when the role owns something here or was granted it.
    return """
        SELECT CASE s.setrole WHEN 0 THEN NULL ELSE s.setrole::regrole::text END, s.setdatabase = 0,
            split_part(item, '=', 1), substr(item, strpos(item, '=') + 1)
        FROM pg_db_role_setting AS s CROSS JOIN unnest(s.setconfig) AS item
        WHERE s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
            OR s.setdatabase = 0 AND EXISTS (
                SELECT FROM pg_shdepend AS dep WHERE dep.refclassid = 'pg_authid'::regclass AND dep.refobjid = s.setrole
                AND dep.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()))"""


SOURCES = (Source(Database, _database), Source(Setting, _settings))
