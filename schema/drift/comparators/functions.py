"""Functions, procedures and aggregates."""

from schema.drift.comparators.base import Comparator, granted, literal
from schema.pg.catalog import Kind
from schema.pg.catalog.functions import Function


class FunctionComparator(Comparator):
    """Routines, by the text that CREATE OR REPLACE takes."""

    kinds = (Kind.FUNCTION,)
    noun = "ROUTINE"

    def created(self, wanted: Function) -> list[str]:
        """CREATE OR REPLACE."""
        return [] if wanted.sort == "aggregate" else [wanted.definition.rstrip()]

    def renamed(self, wanted: Function, found: Function) -> list[str]:
        """ALTER ROUTINE RENAME takes the bare name."""
        name = wanted.signature.partition("(")[0].removeprefix(f"{wanted.schema}.")
        return [f"ALTER ROUTINE {found.signature} RENAME TO {name}"]

    def altered(self, wanted: Function, found: Function, attribute: str) -> list[str]:
        """CREATE OR REPLACE, which can't change what a function returns or how its arguments are called."""
        match attribute:
            case "definition":
                header = wanted.definition.partition("\n LANGUAGE ")[0] == found.definition.partition("\n LANGUAGE ")[0]
                return self.created(wanted) if header else []
            case "privileges":
                return granted("ROUTINE", wanted.identity, wanted.owner, wanted.privileges, found.privileges)
            case "comment":
                noun = "AGGREGATE" if wanted.sort == "aggregate" else "ROUTINE"
                return [f"COMMENT ON {noun} {wanted.identity} IS {literal(wanted.comment)}"]
        return super().altered(wanted, found, attribute)
