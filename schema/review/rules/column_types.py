"""Types that are regretted later."""

import re
from collections.abc import Iterator

from schema.pg.catalog.columns import Column
from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, changed

_REGRETTED = {
    re.compile(r"^json(\[\])*$"): "jsonb can be indexed and compared",
    re.compile(r"^character\("): "char(n) pads with blanks; varchar(n) or text does not",
    re.compile(
        r"^timestamp(\(\d\))? without time zone"
    ): "timestamptz names a moment, whatever the session's time zone",
}


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        fresh = [*added(statement, Column), *(new for old, new in changed(statement, Column) if old.type != new.type)]
        keys = {
            f"{each.table}.{each.definition.removeprefix('PRIMARY KEY (').partition(')')[0]}"
            for each in added(statement, Constraint)
            if each.sort == "PRIMARY KEY"
        }
        for column in fresh:
            for pattern, why in _REGRETTED.items():
                if pattern.search(column.type or ""):
                    yield Found(f"{column.identity} is {column.type}: {why}", statement, column.table, sized=False)
            if column.default_is_own_sequence:
                yield Found(
                    f"{column.identity} is serial: GENERATED … AS IDENTITY belongs to the column",
                    statement,
                    column.table,
                    sized=False,
                )
            if column.identity in keys and column.type in {"integer", "smallint"}:
                yield Found(
                    f"primary key {column.identity} is {column.type}, which ends at 2,147,483,647 or before",
                    statement,
                    column.table,
                    sized=False,
                )


RULE = Rule(
    "column-type",
    "Type that is regretted later",
    "A column is json, char(n), timestamp without time zone or serial, or a primary key is int.",
    "Changing it later rewrites the table.",
    """\
op.create_table(
    "fresh",
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True)),
)""",
    Severity.NOTE,
    _find,
    bad=Example('op.create_table("fresh", sa.Column("id", sa.BigInteger), sa.Column("at", sa.DateTime))'),
    good=Example(
        'op.create_table("fresh", sa.Column("id", sa.BigInteger), sa.Column("at", sa.DateTime(timezone=True)))'
    ),
)
