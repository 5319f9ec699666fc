"""No index leads with the columns of a new foreign key."""

import re
from collections.abc import Iterator

from schema.pg.catalog.constraints import Constraint
from schema.pg.catalog.indexes import Index
from schema.review.finding import Context, Example, Found, Rule, Severity

_KEY = re.compile(r"^FOREIGN KEY \((?P<columns>.*?)\) REFERENCES")
_CONSTRAINT = re.compile(r"^(?:PRIMARY KEY|UNIQUE(?: NULLS NOT DISTINCT)?) \((?P<columns>.*?)\)")
_INDEX = re.compile(r" USING btree \((?P<columns>.*?)\)(?P<rest>.*)$")


def columns_of(definition: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """The columns between the parentheses, as the server prints them."""
    found = pattern.search(definition)
    return tuple(part.strip() for part in found["columns"].split(", ")) if found else ()


def _find(context: Context) -> Iterator[Found]:
    if not context.final:
        return
    after = context.trace.after
    first = context.traces[0].before if context.traces else context.trace.before
    leading = [
        (each.table, columns_of(each.definition or "", _INDEX))
        for each in after.of(Index)
        if " WHERE " not in (each.definition or "")
    ]
    leading += [(each.table, columns_of(each.definition, _CONSTRAINT)) for each in after.of(Constraint)]
    for key in after.of(Constraint):
        if key.sort != "FOREIGN KEY" or key.key in first.objects:
            continue
        wanted = columns_of(key.definition, _KEY)
        if not any(table == key.table and set(columns[: len(wanted)]) == set(wanted) for table, columns in leading):
            yield Found(
                f"no index leads with {', '.join(wanted)} of {key.table}, the columns of {key.name}",
                relation=key.table,
                severity=Severity.WARNING if context.size_of(key.table) else Severity.NOTE,
            )


RULE = Rule(
    "foreign-key-without-index",
    "Foreign key without an index",
    "At the end no index leads with the columns of a foreign key that the revisions add.",
    "Each DELETE or key UPDATE of the referenced table reads the whole referring table.",
    """\
with op.get_context().autocommit_block():
    op.create_index("ix_app_parent_id", "app", ["parent_id"], postgresql_concurrently=True)""",
    Severity.WARNING,
    _find,
    bad=Example('op.execute("CREATE TABLE fresh (id int, parent_id bigint REFERENCES parent)")'),
    good=Example(
        'op.execute("CREATE TABLE fresh (parent_id bigint REFERENCES parent, id int, PRIMARY KEY (parent_id, id))")'
    ),
)
