"""Something that existed before is dropped."""

from collections.abc import Iterator

from schema.pg.catalog import Kind
from schema.pg.catalog.columns import Column
from schema.review.facts import Statement
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import renamed_objects

_DATA = frozenset({Kind.TABLE, Kind.COLUMN, Kind.SCHEMA})
_KINDS = _DATA | {
    Kind.VIEW,
    Kind.ENUM,
    Kind.DOMAIN,
    Kind.TYPE,
    Kind.FUNCTION,
    Kind.SEQUENCE,
    Kind.TRIGGER,
    Kind.EXTENSION,
}


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        gone = {change.key: change.before for change in statement.changes if change.after is None}
        renamed = _renamed(statement)
        for key, lost in gone.items():
            if key.kind not in _KINDS or lost is None or key not in context.baseline.objects or key.identity in renamed:
                continue
            if any(container in gone for container in lost.containers):
                continue
            oid = next((each.oid for each in statement.relations.values() if each.name == key.identity), 0)
            table = lost.table if isinstance(lost, Column) else key.identity
            rows = context.size_of(table)
            told = (
                f" with {rows.rows:,} rows"
                if rows
                else f" ({context.trace.rows[oid]} rows here)"
                if oid in context.trace.rows
                else ""
            )
            if key.identity in context.trace.values and isinstance(lost, Column):
                told = f" ({context.trace.values[key.identity]} values here{', of ' + format(rows.rows, ',') + ' rows in production' if rows else ''})"
            locked = [
                f"{each.relation.name}"
                for each in statement.locks
                if each.mode.dangerous and each.relation.is_table and each.relation.name != table
            ]
            also = f"; it locks {', '.join(dict.fromkeys(locked))} too" if locked else ""
            severity = Severity.ERROR if key.kind in _DATA else Severity.WARNING
            yield Found(f"{key.kind} {key.identity}{told} is dropped{also}", statement, table, severity, sized=False)


def _renamed(statement: Statement) -> set[str]:
    names = {old.name for old, _ in statement.renamed} | {old.identity for old, _ in renamed_objects(statement)}
    for oid, before in statement.relations.items():
        for old, new in statement.renamed_columns.get(oid, ()):
            names.add(f"{before.name}.{old}")
            names.add(f"{before.name}.{new}")
        if before.name in names:
            names |= {f"{before.name}.{line.partition(' ')[2]}" for line in before.columns.splitlines()}
    return names


RULE = Rule(
    "object-dropped",
    "Something is dropped",
    "A table, column, schema, view, type, function, sequence or trigger that existed before is gone.",
    "Running code that uses it fails at once; the data of tables and columns is lost, and no downgrade brings it back.",
    """\
# Two releases: first no code may use it any more; then, in a revision of its own, with the data saved elsewhere:
op.execute("SET LOCAL lock_timeout = '2s'")
op.drop_column("app", "number")  # schemactl: accept object-dropped -- unused since release 25.3""",
    Severity.ERROR,
    _find,
    bad=Example('op.drop_column("app", "number")'),
    good=Example('op.alter_column("app", "number", new_column_name="amount")'),
)
