"""One file to one revision: every way to write the link, and both readers alike."""

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schema.lineage.source import Revision, UnreadableError, parse, parse_any, parse_usual

PATH = Path("versions/x.py")


@pytest.mark.parametrize(
    ("text", "parents"),
    [
        ("revision = 'b'\ndown_revision = 'a'\n", ("a",)),
        ('revision: str = "b"\ndown_revision: str | None = "a"\n', ("a",)),
        ("revision = 'b'\ndown_revision: Union[str, Sequence[str], None] = ('a', 'c')\n", ("a", "c")),
        ("revision = 'b'\ndown_revision = ['a', 'c',]\n", ("a", "c")),
        ("revision = 'b'\ndown_revision = ('a',)\n", ("a",)),
        ("revision = 'b'\ndown_revision = ('a')\n", ("a",)),
        ("revision = ('b')\ndown_revision = (\n    'a',\n    'c',\n)\n", ("a", "c")),
        ("revision = 'b'\ndown_revision = 'aa' 'bb'\n", ("aabb",)),
        ("revision = 'b'\ndown_revision = ('aa'\n    'bb')\n", ("aabb",)),
        ("revision = 'b'\ndown_revision = 'aa' + 'bb'\n", ("aabb",)),
        ("revision = 'b'\ndown_revision = None\n", ()),
        ("revision = 'b'\ndown_revision = ()\n", ()),
        ("revision = 'b'\n", ()),
        ("revision = 'b'\ndown_revision = 'x'\ndown_revision = 'a'  # the last one counts\n", ("a",)),
        ("import os; revision = 'b'; down_revision = 'a'\n", ("a",)),
        ("'''revision = 'no'\n'''\nrevision = 'b'\ndown_revision = 'a'\n", ("a",)),
        ('"""\nrevision = "no"\ndown_revision = "no"\n"""\nrevision = "b"\ndown_revision = "a"\n', ("a",)),
        ("revision = 'b'\ndown_revision = 'a'\n\ndef upgrade():\n    revision = 'no'\n", ("a",)),
        ("revision = 'b'\r\ndown_revision = 'a'\r\n", ("a",)),
        ("\ufeffrevision = 'b'\ndown_revision = 'a'\n", ("a",)),
    ],
)
def test_every_way_to_write_a_link(text: str, parents: tuple[str, ...]) -> None:
    data = text.encode()
    assert parse(data, PATH) == parse_any(data, PATH)
    assert (parse(data, PATH).id, parse(data, PATH).parents) == ("b", parents)


def test_the_usual_shape_needs_no_syntax_tree(tmp_path: Path) -> None:
    template = Path(__import__("alembic").__file__).parent / "templates" / "generic" / "script.py.mako"
    from mako.template import Template

    text = Template(filename=str(template)).render_unicode(
        message="m",
        up_revision="b",
        down_revision="a",
        branch_labels=("left",),
        depends_on=None,
        create_date="2026",
        comma=lambda value: value,
        imports=None,
        upgrades="# this revision is a comment\n    pass",
        downgrades=None,
    )
    read = parse_usual(text.encode(), PATH)
    assert read is not None
    assert read == parse_any(text.encode(), PATH)
    assert (read.id, read.parents, read.labels, read.revises, read.title) == ("b", ("a",), ("left",), ("a",), "m")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"revision = 'b'\ndef upgrade(:\n", "versions/x.py, line 2: "),
        (b"revision = 'b'\n<<<<<<< HEAD\ndown_revision = 'a'\n=======\n", "versions/x.py, line 2: "),
        (b"revision = 'b\xe9'\n", "versions/x.py is not utf-8: byte 0xe9 at offset 13"),
        (
            b"# -*- coding: nonsense -*-\nrevision = 'b'\n",
            "versions/x.py cannot be decoded: unknown encoding: nonsense",
        ),
        (b"revision = make_id()\n", "versions/x.py, line 1: revision is computed"),
        (b"revision = None\n", "versions/x.py: revision is None, not a string"),
        (b"if True:\n    revision = 'b'\n", "versions/x.py, line 1: revision is not a plain assignment"),
        (b"revision, down_revision = 'b', 'a'\n", "versions/x.py, line 1: revision is not a plain assignment"),
        (b"from ids import revision\n", "versions/x.py, line 1: revision is not a plain assignment"),
        (b"HELPER = 1\n", "versions/x.py has no revision id"),
    ],
)
def test_unreadable_files_say_where(data: bytes, message: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        parse(data, PATH, thorough=True)
    assert caught.value.message.startswith(message)


def test_a_coding_cookie_is_honoured() -> None:
    read = parse("# -*- coding: latin-1 -*-\n'''Größe'''\nrevision = 'b'\n".encode("latin-1"), PATH)
    assert read == Revision("b", PATH, docstring="Größe")


def test_the_oldest_files_are_named_by_their_id() -> None:
    assert parse(b"down_revision = None\n", Path("1a2b.py")).id == "1a2b"


NAMES = st.sampled_from(["revision", "down_revision", "branch_labels", "depends_on", "other"])
VALUES = st.sampled_from(
    [
        "None",
        "'a'",
        '"b"',
        "('a', 'b')",
        "('a',)",
        "['a']",
        "('a')",
        "'a' 'b'",
        "'a' + 'b'",
        "f'a'",
        "r'a'",
        "x()",
        "''",
    ]
)
LINES = st.one_of(
    st.builds("{}{}={}{}".format, NAMES, st.sampled_from([" ", ": str ", ": Union[str, None] ", ""]), VALUES,
              st.sampled_from(["", "  # revision", ";", " ; revision = 'z'"])),
    st.builds("    {} = {}".format, NAMES, VALUES),
    st.sampled_from([
        "", "# revision = 'no'", "import sqlalchemy as sa", "from x import revision", "from x import (a,", ")", '"""',
        "'''", '"""revision = \'c\'"""', "def upgrade():", "    pass", "if True:", "class A:", "x = [", "]", "\\",
        "@decorator", "    revision: str", "(revision := 'w')", "for revision in []: pass", "def f(a=1): pass",
    ]),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_both_readers_give_the_same_answer(lines: list[str], newline: str) -> None:
    data = newline.join([*lines, ""]).encode()
    usual = parse_usual(data, PATH)
    if usual is None:
        return
    try:
        ast.parse(data)
    except SyntaxError:
        # The quick reader looks no further than the link, so a broken body is all that it misses.
        return
    assert usual == parse_any(data, PATH)


HEADERS = st.tuples(
    st.sampled_from(["", '"""Doc.\n\nRevises: a\n"""\n', "# comment\n\n", '"""Doc "quoted" text."""\n']),
    st.permutations(["revision = 'r'", "down_revision = ('a', 'b')", "branch_labels = ['l']", "depends_on = None"]),
    st.sampled_from(["", "import os\n", "from alembic import op\nimport sqlalchemy as sa\n\n# revision identifiers\n"]),
    st.sampled_from(["", "def upgrade():\n    pass\n", "def upgrade():\n    '''This revision.'''\n    revision = 1\n"]),
)


@settings(deadline=None)
@given(HEADERS)
def test_the_quick_reader_reads_every_usual_header(parts: tuple[str, list[str], str, str]) -> None:
    docstring, assignments, imports, body = parts
    data = (docstring + imports + "\n".join(assignments) + "\n\n\n" + body).encode()
    usual = parse_usual(data, PATH)
    assert usual is not None
    assert usual == parse_any(data, PATH)
    assert (usual.id, usual.parents, usual.labels) == ("r", ("a", "b"), ("l",))
