"""Something has another name."""

from collections.abc import Iterator

from schema.pg.catalog.types import Enum
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import changed, renamed_objects


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for old, new in statement.renamed:
            if not old.is_index:
                yield Found(f"{old.name} is renamed to {new.name}", statement, old.name, sized=False)
        for oid, pairs in statement.renamed_columns.items():
            table = statement.relations[oid].name
            if oid in context.trace.existing:
                for before, after in pairs:
                    yield Found(f"column {before} of {table} is renamed to {after}", statement, table, sized=False)
        for gone, come in renamed_objects(statement):
            yield Found(f"{gone.kind} {gone.identity} is renamed to {come.identity}", statement, sized=False)
        for was, now in changed(statement, Enum):
            if len(was.labels) == len(now.labels) and was.labels != now.labels:
                lost = sorted(set(was.labels) - set(now.labels))
                yield Found(f"value {', '.join(lost)} of enum {was.identity} is renamed", statement, sized=False)


RULE = Rule(
    "renamed",
    "Something is renamed",
    "A table, view, sequence, column, type, function, schema or enum value that existed before keeps its identity and gets another name.",
    "Code that runs while the revision is deployed knows one of the two names only, and fails.",
    """\
op.add_column("app", sa.Column("amount", sa.Integer))
# then: write both, fill in batches, read the new one, and drop the old one in a later release""",
    Severity.ERROR,
    _find,
    bad=Example('op.alter_column("app", "number", new_column_name="amount")'),
    good=Example('op.add_column("app", sa.Column("amount", sa.Integer))'),
)
