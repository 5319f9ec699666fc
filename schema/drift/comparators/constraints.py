"""Constraints."""

from schema.drift.comparators.base import Comparator, Probe, literal
from schema.pg.catalog import Kind
from schema.pg.catalog.constraints import Constraint


class ConstraintComparator(Comparator):
    """CHECK, foreign key, primary key, unique and exclusion constraints."""

    kinds = (Kind.CONSTRAINT,)

    def summary(self, found: Constraint) -> str | None:
        """The whole definition."""
        return f"{found.definition}{found.suffix}"

    def told_elsewhere(self, one: Constraint, other: Constraint, attribute: str) -> bool:
        """A constraint that is not enforced is never valid."""
        return attribute == "validated" and one.enforced != other.enforced

    def probe(self, one: Constraint, attribute: str) -> Probe | None:
        """The constraint is dropped and added again."""
        if attribute != "definition":
            return None
        suffix = one.suffix
        return Probe(
            lambda text: [
                f"ALTER TABLE {one.table} DROP CONSTRAINT {one.name} CASCADE",
                f"ALTER TABLE {one.table} ADD CONSTRAINT {one.name} {text}{suffix}",
            ],
            f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {literal(one.table)}::regclass"
            f" AND quote_ident(conname) = {literal(one.name)}",
            lambda text: text.removesuffix(suffix),
        )

    def created(self, wanted: Constraint) -> list[str]:
        """ADD CONSTRAINT."""
        return [f"ALTER TABLE {wanted.table} ADD CONSTRAINT {wanted.name} {wanted.definition}{wanted.suffix}"]

    def dropped(self, found: Constraint) -> list[str]:
        """DROP CONSTRAINT."""
        return [f"ALTER TABLE {found.table} DROP CONSTRAINT {found.name}"]

    def renamed(self, wanted: Constraint, found: Constraint) -> list[str]:
        """RENAME CONSTRAINT."""
        return [f"ALTER TABLE {wanted.table} RENAME CONSTRAINT {found.name} TO {wanted.name}"]

    def altered(self, wanted: Constraint, found: Constraint, attribute: str) -> list[str]:
        """ALTER or VALIDATE CONSTRAINT where there is such a form, else drop it and add it again."""
        name = f"CONSTRAINT {wanted.name}"
        match attribute:
            case "comment":
                return [f"COMMENT ON {name} ON {wanted.table} IS {literal(wanted.comment)}"]
            case "validated" if wanted.validated:
                return [f"ALTER TABLE {wanted.table} VALIDATE {name}"]
            case "triggers":
                return [f"ALTER TABLE {wanted.table} ENABLE TRIGGER ALL"] if wanted.triggers == "enabled" else []
            case "deferrable" if wanted.sort == "FOREIGN KEY":
                return [f"ALTER TABLE {wanted.table} ALTER {name} {wanted.deferrable}"]
        return self.dropped(found) + self.created(wanted)
