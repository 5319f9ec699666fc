"""A name that is not what the project's naming convention gives."""

import re
from collections.abc import Iterator, Mapping

from schema.pg.catalog.constraints import Constraint
from schema.pg.catalog.indexes import Index
from schema.review.finding import Context, Example, Found, Rule, Severity
from schema.review.rules.support import added, bare

_KEYS = {"CHECK": "ck", "FOREIGN KEY": "fk", "PRIMARY KEY": "pk", "UNIQUE": "uq", "EXCLUDE": "excl"}
_TOKEN = re.compile(r"%\((?P<token>\w+)\)s")
_COLUMN = re.compile(r"\((?P<name>\"[^\"]+\"|[\w$]+)[,)]")
_REFERRED = re.compile(r"REFERENCES (?:ONLY )?(?P<table>(?:\"[^\"]+\"|[\w$]+)(?:\.(?:\"[^\"]+\"|[\w$]+))*)")


def _find(context: Context) -> Iterator[Found]:
    for statement in context.trace.statements:
        for constraint in added(statement, Constraint):
            wanted = context.naming.get(_KEYS[constraint.sort])
            told = _REFERRED.search(constraint.definition)
            column = _COLUMN.search(constraint.definition) if constraint.sort != "CHECK" else None
            known = {
                "table_name": bare(constraint.table),
                "referred_table_name": bare(told["table"]) if told else None,
                "column_0_name": column["name"].strip('"') if column else None,
            }
            if wanted is not None and not _fits(constraint.name, wanted, known):
                yield Found(
                    _message(constraint.sort, constraint.name, wanted), statement, constraint.table, sized=False
                )
        for index in added(statement, Index):
            # A unique index stands for a constraint as well. One of a constraint, or of a partition, follows that.
            keys = [context.naming.get("ix"), context.naming.get("uq") if _unique(index) else None]
            wanted_ones = [key for key in keys if key is not None]
            if not wanted_ones or index.constraint is not None or index.parent is not None:
                continue
            if not any(_fits(index.name, wanted, {"table_name": bare(index.table)}) for wanted in wanted_ones):
                yield Found(_message("index", index.name, wanted_ones[0]), statement, index.table, sized=False)


def _unique(index: Index) -> bool:
    return (index.definition or "").startswith("UNIQUE") or " UNIQUE " in (index.definition or "").partition("(")[0]


def _message(what: str, name: str, wanted: str) -> str:
    return f"{what} {name} is not named as {wanted} says"


def _fits(name: str, wanted: str, known: Mapping[str, str | None]) -> bool:
    """Whether the convention may give this name, as far as what it is made of is known; the rest may be anything."""
    plain = name.removeprefix('"').removesuffix('"')
    if len(plain.encode()) >= 60:
        # SQLAlchemy cuts such a name and ends it with a hash.
        return True
    full = _TOKEN.sub(lambda token: known.get(token["token"]) or "", wanted)
    if len(full.encode()) > 63:
        # Somebody had to find a shorter one.
        return True
    known = {**known, "column_0_label": f"{known.get('table_name')}_"}
    pattern, end = "", 0
    for token in _TOKEN.finditer(wanted):
        value = known.get(token["token"])
        pattern += re.escape(wanted[end : token.start()]) + (re.escape(value) if value else "")
        pattern += ".+" if not value or value.endswith("_") else ""
        end = token.end()
    return re.fullmatch(pattern + re.escape(wanted[end:]), plain) is not None


RULE = Rule(
    "name-unconventional",
    "Name off the naming convention",
    "An index or a constraint has another name than the naming_convention of the project's metadata gives; an index's columns are not looked at, nor names that would be too long.",
    "The next revision that drops it by the conventional name fails, and autogenerate proposes to rename it.",
    """\
op.create_index(op.f("ix_app_number"), "app", ["number"])  # the name that the convention gives, written out""",
    Severity.NOTE,
    _find,
    bad=Example('op.execute("ALTER TABLE app ADD CONSTRAINT positive CHECK (number > 0) NOT VALID")'),
    good=Example('op.execute("ALTER TABLE app ADD CONSTRAINT ck_app_positive CHECK (number > 0) NOT VALID")'),
)
