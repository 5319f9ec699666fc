"""A primary key over nullable columns reads the table to prove that none is NULL."""

from collections.abc import Iterator

from schema.pg.catalog.columns import Column
from schema.pg.catalog.constraints import Constraint
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, changed, existing


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for key in added(statement, Constraint):
            table = existing(context, key.table, statement)
            if key.sort != "PRIMARY KEY" or table is None or not statement.noted("verifying table ", table):
                continue
            names = [
                new.name
                for old, new in changed(statement, Column)
                if new.table == key.table and new.not_null > old.not_null
            ]
            if names:
                yield Found(
                    f"{', '.join(names)} of {key.table} is set NOT NULL by the key, after a scan", statement, key.table
                )


RULE = Rule(
    "primary-key-scan",
    "PRIMARY KEY on nullable columns",
    "A PRIMARY KEY is added over columns that were nullable: they become NOT NULL, which reads the table.",
    "Reads and writes wait for the scan: the lock is ACCESS EXCLUSIVE. USING INDEX does not save it.",
    """\
op.execute("ALTER TABLE keyless ADD CONSTRAINT keyless_id_present CHECK (id IS NOT NULL) NOT VALID")
with op.get_context().autocommit_block():
    op.execute("ALTER TABLE keyless VALIDATE CONSTRAINT keyless_id_present")
op.alter_column("keyless", "id", nullable=False)
op.execute("ALTER TABLE keyless ADD PRIMARY KEY USING INDEX keyless_id")
op.drop_constraint("keyless_id_present", "keyless")""",
    Severity.ERROR,
    _find,
    bad=Example(
        'op.execute("ALTER TABLE keyless ADD PRIMARY KEY USING INDEX keyless_id")',
        setup="CREATE TABLE keyless (id bigint); CREATE UNIQUE INDEX keyless_id ON keyless (id)",
    ),
    good=Example(
        'op.execute("ALTER TABLE keyless ADD PRIMARY KEY USING INDEX keyless_id")',
        setup="CREATE TABLE keyless (id bigint NOT NULL); CREATE UNIQUE INDEX keyless_id ON keyless (id)",
    ),
)
