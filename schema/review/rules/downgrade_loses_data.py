"""What a downgrade throws away."""

from collections.abc import Iterator

from schema.pg.catalog import Key, Kind
from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    lost = context.outcome.lost if context.outcome else ()
    tables: dict[str, list[str]] = {}
    for name, _ in lost:
        table, _, column = name.rpartition(".")
        tables.setdefault(table, []).append(column)
    for table, columns in tables.items():
        rows = max(count for name, count in lost if name.startswith(f"{table}."))
        whole = Key(Kind.TABLE, table) not in context.trace.before.objects
        what = f"table {table}" if whole else f"{', '.join(columns)} of {table}"
        counted = f"{rows} row{'s' if rows != 1 else ''} here"
        yield Found(f"the downgrade loses {what} ({counted})", relation=table, sized=False)


RULE = Rule(
    "downgrade-loses-data",
    "Downgrade loses data",
    "Columns that hold values on the scratch database are gone after the downgrade.",
    "What was written since the upgrade is lost with it. Say so in the revision's docstring.",
    "",
    Severity.NOTE,
    _find,
    bad=Example(
        'op.add_column("app", sa.Column("flag", sa.Boolean, server_default="true"))',
        downgrade='op.drop_column("app", "flag")',
    ),
    good=Example('op.create_index("ix_app_number", "app", ["number"])', downgrade='op.drop_index("ix_app_number")'),
)
