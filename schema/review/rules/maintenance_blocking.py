"""REINDEX, CLUSTER, VACUUM FULL and REFRESH MATERIALIZED VIEW."""

from collections.abc import Iterator

from schema.pg.catalog import Kind
from schema.review.facts import LockMode
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import strongest


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        # CLUSTER marks its index; what changes anything else is another rule's.
        if any(change.key.kind is not Kind.INDEX for change in statement.changes):
            continue
        # Of a table that was truncated nobody knows the number of rows.
        tables = {each.oid for each in statement.rewritten if each.kind == "m" or (each.is_table and each.tuples >= 0)}
        for relation in statement.rewritten:
            owner = context.table_of(relation)
            mode = strongest(statement, owner)
            if relation.oid in tables:
                yield Found(
                    f"{relation.name} is written anew under {mode or LockMode.ACCESS_EXCLUSIVE}", statement, owner.name
                )
            elif relation.is_index and owner.oid not in {each.oid for each in statement.rewritten} and mode is not None:
                yield Found(f"{relation.name} is rebuilt under {mode} on {owner.name}", statement, owner.name)


RULE = Rule(
    "maintenance-blocking",
    "Table, index or materialised view written anew",
    "REINDEX, CLUSTER, VACUUM FULL or REFRESH MATERIALIZED VIEW replaces the file of something that existed before.",
    "Writes (REINDEX) or reads and writes wait until it is done.",
    """\
with op.get_context().autocommit_block():
    op.execute("SET lock_timeout = 0")
    op.execute("REINDEX INDEX CONCURRENTLY ix_app_name")
    op.execute("RESET lock_timeout")""",
    Severity.ERROR,
    _find,
    bad=Example('op.execute("REINDEX INDEX ix_app_name")', setup="CREATE INDEX ix_app_name ON app (name)"),
    good=Example(
        """\
with op.get_context().autocommit_block():
    op.execute("REINDEX INDEX CONCURRENTLY ix_app_name")""",
        setup="CREATE INDEX ix_app_name ON app (name)",
    ),
)
