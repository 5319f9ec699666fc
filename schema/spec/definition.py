"""The service definition: `service-definition.toml` beside a model, its root and its section per runtime variant."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from schema.spec.documents import parse_toml
from schema.spec.draft import RevisionDraft, RuntimeVariant
from schema.spec.merge import DEFINITION, KEYED_FIELDS, REQUEST, Entry, Layer, Path, is_missing, toml_key
from schema.spec.problems import Problem
from schema.spec.values import kind_of

ENVIRONMENT: Final = ("image", "architecture")
"""Keys of `[environment]`."""

TABLES: Final = ("environment", *KEYED_FIELDS)
"""Tables of a definition, at its root and in each variant's section."""


class ServiceDefinition(BaseModel):
    """A parsed service definition. Its sections are looked into when a variant is generated, its own only."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    root: Mapping[str, object] = Field(repr=False)
    """The root's tables, and every key that is no variant's name."""
    sections: Mapping[RuntimeVariant, object] = Field(repr=False)
    """What stands under each variant's name."""

    @classmethod
    def parse(cls, data: bytes, name: str = "service-definition.toml") -> "ServiceDefinition":
        """Parse a definition's text.

        Raises:
            InvalidValueError: too large, not UTF-8, or not TOML, with the line.
        """
        document = parse_toml(data, name)
        variants = {variant.value: variant for variant in RuntimeVariant}
        return cls(
            root={key: value for key, value in document.items() if key not in variants},
            sections={variants[key]: value for key, value in document.items() if key in variants},
        )


class Reading:
    """Turns documents into layers, and collects the faults of their structure.

    Values are not looked at: only those that survive the merge matter.
    """

    def __init__(self, variant: RuntimeVariant) -> None:
        self.variant = variant
        self.problems: list[Problem] = []
        self.unread: set[str] = set()
        """Fields whose table could not be read: that they lack a value needs no second message."""

    def request(self, fields: Mapping[str, object]) -> Layer:
        """Layer of a request."""
        layer: dict[Path, Entry] = {}
        for field, value in fields.items():
            place = f"request field {toml_key(field)}"
            if field not in RevisionDraft.model_fields:
                self._unknown(place, field, tuple(RevisionDraft.model_fields))
            elif field in KEYED_FIELDS:
                if value is not None:
                    self._table(layer, place, (field,), value, REQUEST)
            elif not is_missing(value):
                layer[(field,)] = Entry(value, REQUEST)
        return layer

    def definition(self, definition: ServiceDefinition | None) -> tuple[Layer, Layer]:
        """Layers of a definition's root and of the variant's section."""
        if definition is None:
            return {}, {}
        root = self._section(definition.root, (), DEFINITION)
        section = definition.sections.get(self.variant, {})
        if not isinstance(section, Mapping):
            name = self.variant.value
            self._not_a_table(f"definition key {name}", name, section, (*ENVIRONMENT, *KEYED_FIELDS))
            return root, {}
        return root, self._section(section, (self.variant.value,), f"{DEFINITION}:{self.variant}")

    def _section(self, section: Mapping[str, object], prefix: Path, source: str) -> Layer:
        layer: dict[Path, Entry] = {}
        for table, value in section.items():
            place = "definition key " + ".".join(map(toml_key, (*prefix, table)))
            if table not in TABLES:
                self._unknown(place, table, TABLES, or_section=not prefix)
            else:
                self._table(layer, place, (table,), value, source)
        return layer

    def _table(self, layer: dict[Path, Entry], place: str, path: Path, value: object, source: str) -> None:
        (table,) = path
        if not isinstance(value, Mapping):
            self._not_a_table(place, table, value, ENVIRONMENT if table == "environment" else ())
            return
        for key, item in value.items():
            if table == "environment":
                if key not in ENVIRONMENT:
                    self._unknown(f"{place}.{toml_key(key)}", key, ENVIRONMENT)
                elif not is_missing(item):
                    layer[(key,)] = Entry(item, source)
            # An environment variable may be empty: only null stands for one that is not given.
            elif item is not None and (table == "environ" or not is_missing(item)):
                layer[(table, key)] = Entry(item, source)

    def _unknown(self, place: str, key: str, known: tuple[str, ...], *, or_section: bool = False) -> None:
        expected = f"{', '.join(known[:-1])} or {known[-1]}"
        if or_section:
            expected += ", or a section named after a runtime variant"
            known = (*known, self.variant.value)
        close = get_close_matches(key, known, n=1)
        expected = f"did you mean {close[0]}?" if close else f"expected {expected}"
        self.problems.append(Problem(toml_key(key), place, f"unknown, {expected}"))

    def _not_a_table(self, place: str, field: str, value: Any, fields: tuple[str, ...]) -> None:
        self.unread.update((*fields, field))
        self.problems.append(Problem(field, place, f"expected a table, found {kind_of(value)}"))
