"""One table is read or written whole several times."""

from collections import Counter
from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import bare


def _find(context: Context) -> Iterator[Found]:
    for table in context.trace.relations.values():
        if not table.is_table or table.oid not in context.trace.existing:
            continue
        scans: Counter[int] = Counter()
        for statement in context.trace.statements:
            for beginning in ("verifying table ", "rewriting table "):
                scans[statement.number] += sum(
                    text.startswith(f'"{bare(table.name)}"') for text in statement.notes(beginning)
                )
        if scans.total() > 1:
            last = next(each for each in reversed(context.trace.statements) if scans[each.number])
            yield Found(f"{table.name} is read or rewritten {scans.total()} times", last, table.name)


RULE = Rule(
    "repeated-scan",
    "Several scans of one table",
    "The revision reads or rewrites one table more than once where one ALTER TABLE could do all of it.",
    "The locks are held for every pass.",
    """\
op.execute("ALTER TABLE app ALTER COLUMN number TYPE bigint, ALTER COLUMN parent_id TYPE numeric")""",
    Severity.WARNING,
    _find,
    bad=Example("""\
op.alter_column("app", "number", type_=sa.BigInteger)
op.alter_column("app", "parent_id", type_=sa.Numeric)"""),
    good=Example('op.execute("ALTER TABLE app ALTER number TYPE bigint, ALTER parent_id TYPE numeric")'),
)
