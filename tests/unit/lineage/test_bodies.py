"""Hashes of what a revision does: blind to layout, alike on every Python, and never blind to a change."""

from pathlib import Path

import pytest

from schema.lineage.bodies import PARTS, digests, touched_tables

PATH = Path("x.py")
TEXT = """revision = 'x'
LIMIT = 5
def helper(a, *b, c=1, **d): return f"{a!r:>{c}} {{x}} {b[0]['k']}" + 'x' "y" + b'z'.decode() + str(LIMIT)
class Unused:
    value: int = 1
def upgrade() -> None:
    "A docstring."
    with op.get_context().autocommit_block():
        helper(1)
    match x:
        case {"a": 1, **r}: pass
        case [1, *_] | None: pass
def downgrade() -> None:
    pass
"""


def test_the_hashes_are_the_same_on_every_python() -> None:
    # Written down from Python 3.11, 3.12 and 3.13; a ledger made with one is read with another.
    assert {part: hash_[:12] for part, hash_ in digests(TEXT.encode(), PATH).items()} == {
        "link": "a710917efafd",
        "upgrade": "364026b6ef9a",
        "downgrade": "55eaa09e6157",
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A docstring.", "Another one."),
        ("helper(1)", "helper( 1 )  # why"),
        ("value: int = 1", "value: int = 2"),
        ("def upgrade() -> None", "def upgrade()"),
        ("'x' \"y\"", "'xy'"),
    ],
)
def test_what_does_not_count(before: str, after: str) -> None:
    assert before in TEXT
    assert digests(TEXT.replace(before, after).encode(), PATH) == digests(TEXT.encode(), PATH)


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ("helper(1)", "helper(2)", "upgrade"),
        ("LIMIT = 5", "LIMIT = 6", "upgrade"),
        ("{{x}}", "{{y}}", "upgrade"),
        ("{{x}}", "{x}", "upgrade"),
        ("case [1, *_] | None", "case [1, *_]", "upgrade"),
        ("    pass\n", "    raise\n", "downgrade"),
        ("revision = 'x'", "revision = 'x'\ndepends_on = 'y'", "link"),
    ],
)
def test_what_counts(before: str, after: str, part: str) -> None:
    assert before in TEXT
    changed, same = digests(TEXT.replace(before, after).encode(), PATH), digests(TEXT.encode(), PATH)
    assert [name for name in PARTS if changed[name] != same[name]] == [part]


@pytest.mark.parametrize(
    ("body", "tables"),
    [
        ("op.add_column('t', sa.Column('c'))", {"t"}),
        ("op.create_index('ix', 't', ['c'])", {"t"}),
        ("op.drop_index('ix', table_name='t')", {"t"}),
        ("op.create_foreign_key('fk', 'child', 'parent', ['p'], ['id'])", {"child"}),
        ("op.execute(sa.text('ALTER TABLE ONLY public.\"t\" ADD c int; DELETE FROM u'))", {"t", "u"}),
        ("op.execute('CREATE UNIQUE INDEX CONCURRENTLY ix ON t (c)')", {"t"}),
        ("with op.batch_alter_table('t') as batch: batch.drop_column('c')", {"t"}),
        ("op.execute(sql)", set()),
    ],
)
def test_touched_tables(body: str, tables: set[str]) -> None:
    text = f"revision = 'x'\ndef upgrade():\n    {body}\ndef downgrade():\n    op.drop_table('other')\n"
    assert touched_tables(text.encode(), PATH) == tables
