"""The rest: collations, operators and their classes and families, casts, languages, text search, and the like."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Kind, Source
from schema.pg.catalog.fragments import USER_SCHEMA, comment, not_extension

FIRST_USER_OID = 16384
"""Objects with a lower oid came with the server (FirstNormalObjectId of its source)."""


@dataclass(frozen=True, slots=True)
class Collation(CatalogObject):
    """A collation. Its version is the host's and not compared."""

    kind: ClassVar = Kind.COLLATION
    keys: ClassVar = frozenset({"name"})

    name: str
    provider: str
    deterministic: bool
    locale: str
    rules: str | None
    owner: str
    comment: str | None

    @property
    def identity(self) -> str:
        """Schema and name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Other(CatalogObject):
    """An object of a rare kind, as PostgreSQL identifies it, with what its catalog says."""

    kind: ClassVar = Kind.OTHER
    keys: ClassVar = frozenset({"sort", "name"})

    sort: str
    name: str
    definition: str
    comment: str | None

    @property
    def identity(self) -> str:
        """Sort and name, such as `operator public.===(integer,integer)`."""
        return f"{self.sort} {self.name}"


def _collations(version: int) -> str:
    locale = "c.colllocale" if version >= 170000 else "c.colliculocale"
    rules = "c.collicurules" if version >= 160000 else "NULL"
    return f"""
        SELECT format('%I.%I', n.nspname, c.collname), c.collprovider::text, c.collisdeterministic,
            concat_ws(' ', c.collcollate, c.collctype, {locale}), {rules}, c.collowner::regrole::text,
            {comment("pg_collation", "c.oid")}
        FROM pg_collation AS c JOIN pg_namespace AS n ON n.oid = c.collnamespace
        WHERE {USER_SCHEMA} AND {not_extension("pg_collation", "c.oid")}"""


_DEFINITIONS = {
    "pg_operator": "concat_ws(' ', o.oprcode, o.oprresult::regtype, o.oprcom::regoperator, o.oprnegate::regoperator,"
    " o.oprrest, o.oprjoin, o.oprcanmerge, o.oprcanhash)",
    "pg_opfamily": """concat_ws(' ',
        (SELECT string_agg(concat_ws(' ', 'operator', m.amopstrategy, m.amopopr::regoperator), ', '
            ORDER BY m.amopstrategy, m.amopopr::regoperator::text) FROM pg_amop AS m WHERE m.amopfamily = o.oid),
        (SELECT string_agg(concat_ws(' ', 'function', m.amprocnum, m.amproc::regprocedure), ', '
            ORDER BY m.amprocnum, m.amproc::regprocedure::text) FROM pg_amproc AS m WHERE m.amprocfamily = o.oid))""",
    "pg_opclass": "concat_ws(' ', o.opcintype::regtype, o.opckeytype::regtype, o.opcdefault,"
    " (SELECT f.opfname FROM pg_opfamily AS f WHERE f.oid = o.opcfamily))",
    "pg_cast": "concat_ws(' ', CASE o.castfunc WHEN 0 THEN '-' ELSE o.castfunc::regprocedure::text END,"
    " o.castcontext, o.castmethod)",
    "pg_conversion": "concat_ws(' ', o.conforencoding, o.contoencoding, o.conproc, o.condefault)",
    "pg_language": "concat_ws(' ', o.lanpltrusted, o.lanplcallfoid::regproc, o.laninline::regproc,"
    " o.lanvalidator::regproc, o.lanacl)",
    "pg_am": "concat_ws(' ', o.amtype, o.amhandler)",
    "pg_transform": "concat_ws(' ', o.trffromsql, o.trftosql)",
    "pg_ts_parser": "concat_ws(' ', o.prsstart, o.prstoken, o.prsend, o.prsheadline, o.prslextype)",
    "pg_ts_template": "concat_ws(' ', o.tmplinit, o.tmpllexize)",
    "pg_ts_dict": "concat_ws(' ', (SELECT t.tmplname FROM pg_ts_template AS t WHERE t.oid = o.dicttemplate),"
    " o.dictinitoption)",
    "pg_ts_config": """concat_ws(' ', (SELECT p.prsname FROM pg_ts_parser AS p WHERE p.oid = o.cfgparser), (
        SELECT string_agg(concat_ws(' ', m.maptokentype, m.mapdict::regdictionary), ', '
            ORDER BY m.maptokentype, m.mapseqno) FROM pg_ts_config_map AS m WHERE m.mapcfg = o.oid))""",
}
"""What of each catalog's row tells two objects of one name apart."""


def _others(version: int) -> str:
    parts = (
        f"""SELECT i.type, i.identity, coalesce({definition}, ''), {comment(catalog, "o.oid")}
        FROM {catalog} AS o CROSS JOIN LATERAL pg_identify_object('{catalog}'::regclass, o.oid, 0) AS i
        WHERE o.oid >= {FIRST_USER_OID} AND {not_extension(catalog, "o.oid")} AND NOT EXISTS (
            SELECT FROM pg_depend AS made WHERE made.deptype = 'i' AND made.classid = '{catalog}'::regclass
                AND made.objid = o.oid)"""
        for catalog, definition in _DEFINITIONS.items()
    )
    return " UNION ALL ".join(parts)


SOURCES = (Source(Collation, _collations), Source(Other, _others))
