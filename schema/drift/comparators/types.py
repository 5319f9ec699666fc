"""Enums, domains and other types."""

from typing import Any

from schema.drift.comparators.base import Comparator, Probe, literal
from schema.pg.catalog import Kind
from schema.pg.catalog.types import Domain, Enum, OtherType


class EnumComparator(Comparator):
    """Enums: labels can be added in place, not removed."""

    kinds = (Kind.ENUM,)
    noun = "TYPE"

    def summary(self, found: Enum) -> str | None:
        """All labels."""
        return f"ENUM ({', '.join(literal(label) for label in found.labels)})"

    def created(self, wanted: Enum) -> list[str]:
        """CREATE TYPE."""
        return [f"CREATE TYPE {wanted.identity} AS {self.summary(wanted)}"]

    def altered(self, wanted: Enum, found: Enum, attribute: str) -> list[str]:
        """ALTER TYPE ADD VALUE, when that is all that is needed."""
        if attribute != "labels":
            return super().altered(wanted, found, attribute)
        if [label for label in wanted.labels if label in found.labels] != list(found.labels):
            return []
        statements = []
        for place, label in enumerate(wanted.labels):
            if label not in found.labels:
                after = (
                    f" AFTER {literal(wanted.labels[place - 1])}" if place else f" BEFORE {literal(found.labels[0])}"
                )
                statements.append(f"ALTER TYPE {wanted.identity} ADD VALUE {literal(label)}{after}")
        return statements


class DomainComparator(Comparator):
    """Domains; each CHECK is an attribute of its own."""

    kinds = (Kind.DOMAIN,)
    noun = "DOMAIN"

    def attributes(self, found: Domain) -> dict[str, object]:
        """Constraints by name."""
        attributes = super().attributes(found)
        del attributes["constraints"]
        for constraint in found.constraints:
            name, _, definition = constraint.partition(" CHECK ")
            attributes[f"constraint {name}"] = f"CHECK {definition}"
        return attributes

    def summary(self, found: Domain) -> str | None:
        """Type and constraints."""
        words = [f"DOMAIN AS {found.type}"]
        words += [f"DEFAULT {found.default}"] if found.default is not None else []
        words += ["NOT NULL"] if found.not_null else []
        return " ".join(words + [f"CONSTRAINT {constraint}" for constraint in found.constraints])

    def created(self, wanted: Domain) -> list[str]:
        """CREATE DOMAIN."""
        return [f"CREATE DOMAIN {wanted.identity} AS {str(self.summary(wanted)).removeprefix('DOMAIN AS ')}"]

    def folded_as(self, one: Domain, other: Domain, attribute: str) -> str | None:
        """The default is evaluated as the type beneath."""
        return one.type if attribute == "default" and one.type == other.type else None

    def probe(self, one: Domain, attribute: str) -> Probe | None:
        """A CHECK is dropped and added again."""
        if not attribute.startswith("constraint "):
            return None
        name = attribute.removeprefix("constraint ")
        return Probe(
            lambda text: [
                f"ALTER DOMAIN {one.identity} DROP CONSTRAINT IF EXISTS {name}",
                f"ALTER DOMAIN {one.identity} ADD CONSTRAINT {name} {text}",
            ],
            f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = {literal(one.identity)}::regtype"
            f" AND quote_ident(conname) = {literal(name)}",
        )

    def altered(self, wanted: Domain, found: Domain, attribute: str) -> list[str]:
        """ALTER DOMAIN."""
        alter = f"ALTER DOMAIN {wanted.identity}"
        if attribute == "not null":
            return [f"{alter} {'SET' if wanted.not_null else 'DROP'} NOT NULL"]
        if attribute == "default":
            return [f"{alter} DROP DEFAULT" if wanted.default is None else f"{alter} SET DEFAULT {wanted.default}"]
        if attribute.startswith("constraint "):
            name = attribute.removeprefix("constraint ")
            definition, present = self.text(wanted, attribute), self.text(found, attribute)
            drop = [f"{alter} DROP CONSTRAINT {name}"] if present is not None else []
            return drop + ([f"{alter} ADD CONSTRAINT {name} {definition}"] if definition is not None else [])
        return super().altered(wanted, found, attribute)


class TypeComparator(Comparator):
    """Composite, range and base types."""

    kinds = (Kind.TYPE,)
    noun = "TYPE"

    def summary(self, found: OtherType) -> str | None:
        """Sort and definition."""
        return f"{found.sort.upper()} TYPE ({', '.join(found.definition)})"

    def created(self, wanted: Any) -> list[str]:
        """CREATE TYPE, for a composite one."""
        if wanted.sort != "composite" or any(" -- " in item for item in wanted.definition):
            return []
        return [f"CREATE TYPE {wanted.identity} AS ({', '.join(wanted.definition)})"]
