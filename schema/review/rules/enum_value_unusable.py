"""An enum's value is used in the transaction that adds it."""

from collections.abc import Iterator

from schema.review.finding import Context, Example, Found, Rule, Severity


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        if statement.sqlstate == "55P04":
            yield Found(f"the server refuses it: {statement.error}", statement)


RULE = Rule(
    "enum-value-unusable",
    "Enum value used where it is added",
    "The server answers 55P04: a new value of an enum is used before its transaction has committed.",
    "The revision fails.",
    """\
with op.get_context().autocommit_block():
    op.execute("ALTER TYPE state ADD VALUE IF NOT EXISTS 'gone'")
op.execute("ALTER TABLE stated ALTER COLUMN state SET DEFAULT 'gone'")""",
    Severity.ERROR,
    _find,
    bad=Example(
        "op.execute(\"ALTER TYPE state ADD VALUE 'gone'\")\nop.execute(\"INSERT INTO stated VALUES ('gone')\")",
        setup="CREATE TYPE state AS ENUM ('new'); CREATE TABLE stated (state state)",
    ),
    good=Example(
        "with op.get_context().autocommit_block():\n    op.execute(\"ALTER TYPE state ADD VALUE 'gone'\")\nop.execute(\"INSERT INTO stated VALUES ('gone')\")",
        setup="CREATE TYPE state AS ENUM ('new'); CREATE TABLE stated (state state)",
    ),
)
