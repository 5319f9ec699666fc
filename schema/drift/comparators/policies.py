"""Row-level security policies."""

from schema.drift.comparators.base import Comparator, Probe, literal
from schema.pg.catalog import Kind
from schema.pg.catalog.policies import Policy

_CLAUSES = {"using": ("USING", "polqual"), "with check": ("WITH CHECK", "polwithcheck")}


class PolicyComparator(Comparator):
    """Policies."""

    kinds = (Kind.POLICY,)
    noun = "POLICY"

    def summary(self, found: Policy) -> str | None:
        """All but the name."""
        words = [f"AS {'PERMISSIVE' if found.permissive else 'RESTRICTIVE'} FOR {found.command}"]
        words.append(f"TO {', '.join(found.roles)}")
        words += [f"USING ({found.using})"] if found.using is not None else []
        words += [f"WITH CHECK ({found.with_check})"] if found.with_check is not None else []
        return " ".join(words)

    def probe(self, one: Policy, attribute: str) -> Probe | None:
        """The clause is set again."""
        if attribute not in _CLAUSES:
            return None
        clause, column = _CLAUSES[attribute]
        return Probe(
            lambda text: [f"ALTER POLICY {self.on_table(one)} {clause} ({text})"],
            f"SELECT pg_get_expr({column}, polrelid) FROM pg_policy WHERE polrelid = {literal(one.table)}::regclass"
            f" AND quote_ident(polname) = {literal(one.name)}",
        )

    def created(self, wanted: Policy) -> list[str]:
        """CREATE POLICY."""
        return [f"CREATE POLICY {self.on_table(wanted)} {self.summary(wanted)}"]

    def altered(self, wanted: Policy, found: Policy, attribute: str) -> list[str]:
        """Drop it and make it again; a moment without it lets nobody see more, as long as another is left."""
        if attribute == "comment":
            return super().altered(wanted, found, attribute)
        return self.dropped(found) + self.created(wanted)

    def name(self, found: Policy) -> str:
        """Name and table."""
        return self.on_table(found)
