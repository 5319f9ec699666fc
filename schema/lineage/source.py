"""One revision file to one `Revision`, statically.

Two readers give the same answer: a regular expression for the usual shape, and `ast` for everything else. The first
is more than ten times faster and looks no further than the link, so only `ast` (`thorough`) sees an error in a body.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from schema.errors import SchemaError

NAMES = ("revision", "down_revision", "branch_labels", "depends_on")
"""The module variables that make a revision's link."""


class UnreadableError(SchemaError):
    """A revision file does not say statically which revision it is."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What one file says about its place in the history."""

    id: str
    path: Path
    parents: tuple[str, ...] = ()
    """`down_revision`, in the order of the file; empty for a base."""
    depends_on: tuple[str, ...] = ()
    """Ids or branch labels, as written."""
    labels: tuple[str, ...] = ()
    docstring: str = ""

    @property
    def title(self) -> str:
        """First line of the docstring."""
        return self.docstring.strip().partition("\n")[0].strip()

    @property
    def revises(self) -> tuple[str, ...] | None:
        """The ids of the docstring's `Revises:` line; None when there is no such line."""
        found = REVISES.search(self.docstring)
        return None if found is None else tuple(part.strip() for part in found[2].split(",") if part.strip())


REVISES = re.compile(r"^([ \t]*Revises:[ \t]*)(.*?)[ \t]*\r?$", re.MULTILINE)

_WORD = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")
_STRING = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_ITEMS = rf"[ ]*(?:{_STRING}[ ]*,[ ]*)*(?:{_STRING})?[ ]*"
_VALUE = rf"None|{_STRING}|\({_ITEMS}\)|\[{_ITEMS}\]"
_ASSIGNMENT = rf"(?:{'|'.join(NAMES)})(?:[ ]*:[ ]*[\w., \[\]|]+?)?[ ]*=[ ]*(?:{_VALUE})[ \t]*(?:\#[^\n]*)?\n"
_IMPORT = rf"(?:from|import)[ ](?:(?!\b(?:{'|'.join(NAMES)})\b)[^\n\"'();\\\#])*\n"
_HEADER = re.compile(
    r'(?:(?:\#[^\n]*|[ \t]*)\n)*(?:"""([^"\\]*(?:"(?!"")[^"\\]*)*)"""[ \t]*\n)?'
    rf"((?:(?:\#[^\n]*|[ \t]*)\n|{_IMPORT}|{_ASSIGNMENT})*)"
)
_EACH = re.compile(rf"^({'|'.join(NAMES)})\b[^=\n]*=[ ]*({_VALUE})", re.MULTILINE)
_TEXTS = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=]", re.MULTILINE)
_OUTSIDE = re.compile(r"(?:#.*|(?:async )?def .*|\).*|[ \t].*|)")
_LEGACY_NAME = re.compile(r"([a-f0-9]+)\.py")


def parse(data: bytes, path: Path, *, thorough: bool = False) -> Revision:
    """Read a revision file's bytes.

    Raises:
        UnreadableError: not decodable, broken syntax, no revision id, or a link that is no literal.
    """
    return (None if thorough else parse_usual(data, path)) or parse_any(data, path)


def parse_usual(data: bytes, path: Path) -> Revision | None:
    """Read a file of the shape that templates make; None when anything about it is unusual."""
    first_lines = b"\n".join(data.split(b"\n", 2)[:2])
    if _COOKIE.search(first_lines) or b"\0" in data or b"<<<<<<<" in data or b"\f" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    header = _HEADER.match(text)
    if header is None or "\r" in text:
        return None
    rest = text[header.end() :]
    if _WORD.search(rest) and not _stays_inside_functions(rest):
        return None
    values = dict(_EACH.findall(header[2]))
    identity = values.get("revision", "")[1:-1]
    if not identity or values["revision"][0] not in "\"'":
        return None
    found = {name: tuple(a or b for a, b in _TEXTS.findall(value)) for name, value in values.items()}
    return Revision(
        identity,
        path,
        found.get("down_revision", ()),
        found.get("depends_on", ()),
        found.get("branch_labels", ()),
        header[1] or "",
    )


def _stays_inside_functions(rest: str) -> bool:
    """Whether the link's names occur in comments and function bodies only, so that none is bound again."""
    if ":=" in rest:
        return False
    for line in rest.split("\n"):
        if not _OUTSIDE.fullmatch(line) or (line[:1] not in ("#", " ", "\t", "") and _WORD.search(line)):
            return False
    return True


def parse_any(data: bytes, path: Path) -> Revision:
    """Read any file that Python reads, by its syntax tree.

    Raises:
        UnreadableError: see `parse`.
    """
    from schema.lineage import syntax

    module = syntax.parse_module(data, path)
    values = syntax.link_values(module, path)
    if "revision" in values:
        value = values["revision"]
        if not isinstance(value, str) or not value:
            raise UnreadableError(f"{path}: revision is {value!r}, not a string")
        identity = value
    elif legacy := _LEGACY_NAME.fullmatch(path.name):
        identity = legacy[1]
    else:
        raise UnreadableError(
            f"{path} has no revision id", hint="Move files that are no revisions out of the versions folder."
        )
    return Revision(
        identity,
        path,
        _ids(values.get("down_revision")),
        _ids(values.get("depends_on")),
        _ids(values.get("branch_labels")),
        syntax.docstring(module),
    )


def _ids(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value
