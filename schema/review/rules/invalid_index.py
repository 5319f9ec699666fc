"""An INVALID index is left behind, or taken for a good one."""

from collections.abc import Iterator

from schema.pg.catalog import Key, Kind
from schema.pg.catalog.indexes import Index
from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    trace = context.trace
    for index in trace.after.of(Index):
        before = trace.before.objects.get(Key(Kind.INDEX, index.identity))
        if not index.valid and index.parent is None and not (isinstance(before, Index) and not before.valid):
            yield Found(f"{index.identity} is INVALID at the end", relation=index.table, sized=False)
    for name in context.outcome.invalid_kept if context.outcome else ():
        yield Found(f"an INVALID {name} that a broken attempt left would be taken for done", sized=False)


RULE = Rule(
    "invalid-index",
    "INVALID index left behind or accepted",
    "An index is INVALID at the end, or the revision, run again over an INVALID leftover of its index, leaves it so.",
    "No query uses it, while every write keeps it up; IF NOT EXISTS reports success.",
    """\
with op.get_context().autocommit_block():
    op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_app_number")
    op.create_index("ix_app_number", "app", ["number"], postgresql_concurrently=True)""",
    Severity.ERROR,
    _find,
    bad=Example(
        """\
with op.get_context().autocommit_block():
    op.create_index("ix_app_number", "app", ["number"], postgresql_concurrently=True, if_not_exists=True)""",
        downgrade='op.drop_index("ix_app_number")',
    ),
    good=Example(
        """\
with op.get_context().autocommit_block():
    op.execute("DROP INDEX CONCURRENTLY IF EXISTS ix_app_number")
    op.create_index("ix_app_number", "app", ["number"], postgresql_concurrently=True)""",
        downgrade='op.drop_index("ix_app_number")',
    ),
)
