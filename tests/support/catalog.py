"""Everything of a database's catalog that a revision can change, as sorted lines of text."""

from collections.abc import Collection

import psycopg

# Positions count living columns only: a dropped one leaves a hole in attnum.
QUERIES = {
    "schema": """
        SELECT nspname, nspacl::text, obj_description(oid, 'pg_namespace')
        FROM pg_namespace WHERE nspname = ANY (%(schemas)s)""",
    "extension": "SELECT extname, extversion FROM pg_extension",
    "relation": """
        SELECT c.oid::regclass, relkind, relpersistence, amname, reloptions, relreplident, relrowsecurity,
            relforcerowsecurity, relacl::text, pg_get_userbyid(relowner), obj_description(c.oid, 'pg_class'),
            (SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid AND tgisinternal)
        FROM pg_class c LEFT JOIN pg_am ON pg_am.oid = relam
        WHERE relnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "column": """
        SELECT attrelid::regclass, row_number() OVER (PARTITION BY attrelid ORDER BY attnum), attname,
            format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), attidentity, attgenerated,
            attcollation::regcollation, attstorage, attcompression, attacl::text, col_description(attrelid, attnum)
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
            AND relnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "constraint": """
        SELECT conrelid::regclass, conname, contype, pg_get_constraintdef(oid), convalidated, condeferrable,
            condeferred, conislocal, obj_description(oid, 'pg_constraint')
        FROM pg_constraint WHERE connamespace::regnamespace::text = ANY (%(schemas)s)""",
    "index": """
        SELECT pg_get_indexdef(indexrelid), indisvalid, indisready, indisunique, indisprimary, indimmediate,
            indisclustered, indisreplident
        FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "function": """
        SELECT pg_get_functiondef(oid), proacl::text, pg_get_userbyid(proowner), obj_description(oid, 'pg_proc')
        FROM pg_proc WHERE prokind <> 'a' AND pronamespace::regnamespace::text = ANY (%(schemas)s)""",
    "sequence": """
        SELECT seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle,
            refobjid::regclass, refobjsubid, deptype
        FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
        LEFT JOIN pg_depend ON objid = seqrelid AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')
        WHERE relnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "view": """
        SELECT oid::regclass, pg_get_viewdef(oid)
        FROM pg_class WHERE relkind IN ('v', 'm') AND relnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "type": """
        SELECT oid::regtype, typtype, format_type(typbasetype, typtypmod), typnotnull, typdefault,
            (SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = pg_type.oid)
        FROM pg_type WHERE typtype IN ('d', 'e', 'r', 'm') AND typnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "trigger": """
        SELECT tgrelid::regclass, pg_get_triggerdef(pg_trigger.oid), tgenabled
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE NOT tgisinternal AND relnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "rule": "SELECT schemaname, tablename, definition FROM pg_rules WHERE schemaname = ANY (%(schemas)s)",
    "policy": "SELECT * FROM pg_policies WHERE schemaname = ANY (%(schemas)s)",
    "statistics": """
        SELECT pg_get_statisticsobjdef(oid)
        FROM pg_statistic_ext WHERE stxnamespace::regnamespace::text = ANY (%(schemas)s)""",
    "default privilege": """
        SELECT defaclrole::regrole, defaclnamespace::regnamespace, defaclobjtype, defaclacl::text
        FROM pg_default_acl""",
}


def catalog(connection: psycopg.Connection, *, without: Collection[str] = ()) -> list[str]:
    """Return the catalog of every schema that is not the system's, but for lines about the tables of `without`."""
    schemas = [
        row[0]
        for row in connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        )
    ]
    lines = []
    for kind, query in QUERIES.items():
        for row in connection.execute(query, {"schemas": schemas}):
            line = f"{kind}: {' | '.join('-' if value is None else str(value) for value in row)}"
            if not any(name in line for name in without):
                lines.append(line)
    return sorted(lines)
