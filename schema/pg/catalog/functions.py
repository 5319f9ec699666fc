"""Functions, procedures, window functions and aggregates."""

from dataclasses import dataclass
from typing import ClassVar

from schema.pg.catalog.base import CatalogObject, Key, Kind, Source
from schema.pg.catalog.fragments import USER_SCHEMA, acl, comment, not_extension


@dataclass(frozen=True, slots=True)
class Function(CatalogObject):
    """A routine, by its name and argument types."""

    kind: ClassVar = Kind.FUNCTION
    keys: ClassVar = frozenset({"schema", "signature"})

    schema: str
    signature: str
    sort: str
    """`function`, `procedure`, `window` or `aggregate`."""
    definition: str
    owner: str
    privileges: tuple[str, ...]
    comment: str | None

    @property
    def identity(self) -> str:
        """Schema, name and argument types, such as `public.order_total(bigint)`."""
        return self.signature

    @property
    def containers(self) -> tuple[Key, ...]:
        """Its schema."""
        return (Key(Kind.SCHEMA, self.schema),)


def _functions(version: int) -> str:
    # pg_get_functiondef refuses aggregates; a zero regproc or operator prints as - or 0 and is left as it is.
    return f"""
        SELECT quote_ident(n.nspname), p.oid::regprocedure::text,
            CASE p.prokind WHEN 'f' THEN 'function' WHEN 'p' THEN 'procedure' WHEN 'w' THEN 'window'
                ELSE 'aggregate' END,
            CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) ELSE concat_ws(' ',
                'AGGREGATE', pg_get_function_arguments(p.oid), 'RETURNS', pg_get_function_result(p.oid),
                'KIND', g.aggkind, 'SFUNC', g.aggtransfn, 'STYPE', g.aggtranstype::regtype, 'SSPACE', g.aggtransspace,
                'FINALFUNC', g.aggfinalfn, g.aggfinalmodify, g.aggfinalextra, 'COMBINEFUNC', g.aggcombinefn,
                'SERIALFUNC', g.aggserialfn, 'DESERIALFUNC', g.aggdeserialfn, 'INITCOND', g.agginitval,
                'MSFUNC', g.aggmtransfn, 'MINVFUNC', g.aggminvtransfn, 'MSTYPE', g.aggmtranstype::regtype,
                'MFINALFUNC', g.aggmfinalfn, g.aggmfinalmodify, g.aggmfinalextra, 'MINITCOND', g.aggminitval,
                'SORTOP', g.aggsortop::regoperator, 'PARALLEL', p.proparallel) END,
            p.proowner::regrole::text, {acl("p.proacl", "f", "p.proowner")}, {comment("pg_proc", "p.oid")}
        FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
            LEFT JOIN pg_aggregate AS g ON g.aggfnoid = p.oid
        WHERE {USER_SCHEMA} AND {not_extension("pg_proc", "p.oid")}
            AND NOT EXISTS (SELECT FROM pg_depend AS made WHERE made.deptype = 'i'
                AND made.classid = 'pg_proc'::regclass AND made.objid = p.oid)"""


SOURCES = (Source(Function, _functions),)
