"""What a kind's comparator answers: what is compared, what means the same, and the SQL that repairs it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from schema.pg.catalog import Kind


@dataclass(frozen=True)
class Probe:
    """How to have a text printed anew on a scratch server."""

    statements: Callable[[str], Sequence[str]]
    query: str
    cut: Callable[[str], str] = str
    """Takes off what the comparison tells elsewhere."""


class Comparator:
    """Compares the objects of one kind. Subclasses override what is special to theirs.

    SQL is made of names and texts that PostgreSQL printed, quoted as it quotes them; nothing is executed.
    """

    kinds: ClassVar[tuple[Kind, ...]]
    noun: ClassVar[str] = ""
    """What ALTER, COMMENT ON and GRANT ON call it; empty when there is no such statement."""

    def attributes(self, found: Any) -> dict[str, object]:
        """What is compared, by name."""
        attributes: dict[str, object] = found.attributes()
        return attributes

    def summary(self, found: Any) -> str | None:
        """The object in a line or two, for one that the other side lacks."""
        return getattr(found, "definition", None)

    def text(self, found: Any, attribute: str) -> str | None:
        """An attribute as the text that a probe takes."""
        value = self.attributes(found).get(attribute)
        return value if isinstance(value, str) else None

    def same_name(self, one: Any, other: Any) -> str | None:
        """Why another name does not matter; None when it does."""
        return None

    def told_elsewhere(self, one: Any, other: Any, attribute: str) -> bool:
        """Whether a differing attribute only follows from another difference that is reported."""
        return False

    def equivalent(self, one: Any, other: Any, attribute: str) -> str | None:
        """Why a differing attribute means the same; None when that takes a server, or it does not."""
        if attribute == "options":
            return same_options(self.option_defaults(one), one.options, other.options)
        return None

    def option_defaults(self, found: Any) -> dict[str, str]:
        """Values that options have when they are not set."""
        return {}

    def folded_as(self, one: Any, other: Any, attribute: str) -> str | None:
        """Type that the attribute's expression is evaluated as; None when it is no such expression."""
        return None

    def probe(self, one: Any, attribute: str) -> Probe | None:
        """How to have the attribute printed anew in a database that has `one`; None when there is no way."""
        return None

    def created(self, wanted: Any) -> list[str]:
        """Statements that make the object; empty when that is better written by hand."""
        return []

    def dropped(self, found: Any) -> list[str]:
        """Statements that remove the object."""
        return [f"DROP {self.noun} {self.name(found)}"] if self.noun else []

    def renamed(self, wanted: Any, found: Any) -> list[str]:
        """Statements that give `found` the name of `wanted`."""
        return [f"ALTER {self.noun} {self.name(found)} RENAME TO {wanted.name}"] if self.noun else []

    def altered(self, wanted: Any, found: Any, attribute: str) -> list[str]:
        """Statements that make the attribute as wanted; empty when that is better written by hand."""
        name = self.name(wanted)
        match attribute:
            case "comment" if self.noun:
                return [f"COMMENT ON {self.noun} {name} IS {literal(wanted.comment)}"]
            case "owner" if self.noun:
                return [f"ALTER {self.noun} {name} OWNER TO {wanted.owner}"]
            case "privileges" if self.noun:
                return granted(self.noun, name, wanted.owner, wanted.privileges, found.privileges)
            case "options" if self.noun:
                return set_options(self.noun, name, wanted.options, found.options)
        return []

    def name(self, found: Any) -> str:
        """The object's name in a statement."""
        identity: str = found.identity
        return identity

    def on_table(self, found: Any) -> str:
        """Name and table, for kinds whose names are a table's own."""
        return f"{found.name} ON {found.table}"


def literal(text: str | None) -> str:
    """Text as an SQL literal; NULL for None."""
    if text is None:
        return "NULL"
    quoted = text.replace("'", "''")
    # A backslash is only itself in a literal without E while standard_conforming_strings is on.
    return f" E'{quoted.replace(chr(92), chr(92) * 2)}'".strip() if "\\" in text else f"'{quoted}'"


def unquoted(identifier: str) -> str:
    """A name as the catalog holds it."""
    if identifier.startswith('"') and identifier.endswith('"'):
        return identifier[1:-1].replace('""', '"')
    return identifier


def granted(
    noun: str, name: str, owner: str, wanted: tuple[str, ...], found: tuple[str, ...], columns: str = ""
) -> list[str]:
    """GRANT and REVOKE statements between two lists of privileges."""
    statements = []
    for entry in sorted(set(found) - set(wanted)):
        privilege, _, rest = entry.partition(" TO ")
        role, option, _ = rest.partition(" WITH GRANT OPTION")
        role = role.partition(" GRANTED BY ")[0].replace("its owner", owner)
        kept = any(other.partition(" GRANTED BY ")[0] == f"{privilege} TO {role}" for other in wanted)
        what = "GRANT OPTION FOR " if option and kept else ""
        statements.append(f"REVOKE {what}{privilege}{columns} ON {noun} {name} FROM {role}")
    for entry in sorted(set(wanted) - set(found)):
        privilege, _, rest = entry.partition(" TO ")
        role = rest.partition(" GRANTED BY ")[0].replace("its owner", owner)
        statements.append(f"GRANT {privilege}{columns} ON {noun} {name} TO {role}")
    return statements


def set_options(noun: str, name: str, wanted: tuple[str, ...], found: tuple[str, ...], prefix: str = "") -> list[str]:
    """ALTER … SET and RESET between two lists of `name=value` options."""
    ours, theirs = _split(wanted), _split(found)
    statements = []
    changed = {key: value for key, value in ours.items() if theirs.get(key) != value}
    if changed:
        values = ", ".join(f"{prefix}{key} = {literal(value)}" for key, value in changed.items())
        statements.append(f"ALTER {noun} {name} SET ({values})")
    if extra := [f"{prefix}{key}" for key in theirs if key not in ours]:
        statements.append(f"ALTER {noun} {name} RESET ({', '.join(extra)})")
    return statements


def same_options(defaults: dict[str, str], one: tuple[str, ...], other: tuple[str, ...]) -> str | None:
    """Why two lists of options mean the same: unset is the default, and booleans have many spellings."""
    ours, theirs = ({**defaults, **_split(options)} for options in (one, other))
    if ours.keys() != theirs.keys() or any(_value(ours[key]) != _value(theirs[key]) for key in ours):
        return None
    return (
        "an option is set to its default" if _split(one).keys() != _split(other).keys() else "one value, two spellings"
    )


def _split(options: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, _, value in (option.partition("=") for option in options)}


def _value(text: str) -> str:
    return {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}.get(text.lower(), text)
