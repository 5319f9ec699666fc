"""Saying in each new revision which release it is part of."""

import re
from collections.abc import Sequence

from schema.errors import UsageError
from schema.lineage.files import Change
from schema.lineage.layout import Layout

PLACEHOLDER = "NEXT_RELEASE_VERSION"
"""What script.py.mako writes until a release names itself."""

_LINE = re.compile(rb"^(#[ \t]*Part of:[ \t]*)NEXT_RELEASE_VERSION(?=[ \t]*\r?$)", re.MULTILINE)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")


def plan_freeze(layout: Layout, version: str) -> Sequence[Change]:
    """The changes that write `version` into every `# Part of: NEXT_RELEASE_VERSION` line.

    Raises:
        UsageError: the version holds something that does not belong in one.
    """
    if not _VERSION.fullmatch(version) or version == PLACEHOLDER:
        raise UsageError(f"{version!r} is no version", hint="Letters, digits and . + - _ only, such as 26.1.0.")
    changes = []
    for path in layout.files():
        before = path.read_bytes()
        after = _LINE.sub(rb"\g<1>" + version.encode(), before)
        if after != before:
            changes.append(Change(path, before, after))
    return changes
