"""A statement that cannot run in a transaction is sent in one."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        if statement.sqlstate == "25001":
            yield Found(f"the server refuses it: {statement.error}", statement)


RULE = Rule(
    "concurrently-in-transaction",
    "CONCURRENTLY inside a transaction",
    "The server answers 25001: the statement cannot run inside a transaction block.",
    "The revision fails.",
    """\
with op.get_context().autocommit_block():
    op.create_index("ix_app_number", "app", ["number"], postgresql_concurrently=True)""",
    Severity.ERROR,
    _find,
    bad=Example('op.execute("CREATE INDEX CONCURRENTLY ix_app_number ON app (number)")'),
    good=Example("""\
with op.get_context().autocommit_block():
    op.execute("CREATE INDEX CONCURRENTLY ix_app_number ON app (number)")"""),
)
