"""SQL that several queries share. Every argument is text of this package, never input."""

USER_SCHEMA = r"n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
"""Condition on `pg_namespace n`: no schema of the server itself. Nobody else may make one that begins with pg_."""


def not_extension(catalog: str, oid: str) -> str:
    """Condition: the object belongs to no extension."""
    return (
        "NOT EXISTS (SELECT FROM pg_depend AS member WHERE member.deptype = 'e'"
        f" AND member.classid = '{catalog}'::regclass AND member.objid = {oid} AND member.objsubid = 0)"
    )


def comment(catalog: str, oid: str, sub: str = "0") -> str:
    """Comment on an object of the database, or NULL."""
    return (
        "(SELECT note.description FROM pg_description AS note"
        f" WHERE note.classoid = '{catalog}'::regclass AND note.objoid = {oid} AND note.objsubid = {sub})"
    )


def acl(column: str, kind: str, owner: str) -> str:
    """Privileges as sorted text, defaults written out; the owner's are named so, whoever it is."""
    return f"""ARRAY(
        SELECT concat(
            item.privilege_type, ' TO ',
            CASE item.grantee WHEN 0 THEN 'PUBLIC' WHEN {owner} THEN 'its owner' ELSE item.grantee::regrole::text END,
            CASE WHEN item.is_grantable THEN ' WITH GRANT OPTION' END,
            CASE WHEN item.grantor <> {owner} THEN ' GRANTED BY ' || item.grantor::regrole::text END
        ) COLLATE "C"
        FROM aclexplode(coalesce({column}, acldefault('{kind}', {owner}))) AS item
        ORDER BY 1)"""


def column_acl(column: str, owner: str) -> str:
    """Privileges on a column: none by default, so nothing is asked of the server for most columns."""
    return f"CASE WHEN {column} IS NULL THEN '{{}}' ELSE {acl(column, 'c', owner)} END"


def options(column: str) -> str:
    """`name=value` options, sorted; an empty array when there are none."""
    return f"""CASE WHEN {column} IS NULL THEN '{{}}' ELSE ARRAY(
        SELECT item FROM unnest({column}) AS item ORDER BY item COLLATE "C") END"""


def tablespace(column: str) -> str:
    """Name of the tablespace, or NULL for the database's own."""
    return f"(SELECT quote_ident(space.spcname) FROM pg_tablespace AS space WHERE space.oid = {column})"


def sequence_bounds(sequence: str) -> str:
    """The MINVALUE and MAXVALUE of a `pg_sequence` row, where they are not what its type and direction give."""
    upper = f"CASE {sequence}.seqtypid WHEN 21 THEN 32767 WHEN 23 THEN 2147483647 ELSE 9223372036854775807 END"
    lower = f"CASE {sequence}.seqtypid WHEN 21 THEN -32768 WHEN 23 THEN -2147483648 ELSE -9223372036854775808 END"
    return f"""concat(
        CASE WHEN {sequence}.seqmin <> CASE WHEN {sequence}.seqincrement > 0 THEN 1 ELSE {lower} END
            THEN ' MINVALUE ' || {sequence}.seqmin END,
        CASE WHEN {sequence}.seqmax <> CASE WHEN {sequence}.seqincrement > 0 THEN {upper} ELSE -1 END
            THEN ' MAXVALUE ' || {sequence}.seqmax END)"""
