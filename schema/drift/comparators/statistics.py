"""Extended statistics."""

from schema.drift.comparators.base import Comparator, Probe, literal
from schema.pg.catalog import Kind
from schema.pg.catalog.statistics import Statistics


class StatisticsComparator(Comparator):
    """CREATE STATISTICS objects."""

    kinds = (Kind.STATISTICS,)
    noun = "STATISTICS"

    def probe(self, one: Statistics, attribute: str) -> Probe | None:
        """Dropped and made again."""
        if attribute != "definition":
            return None
        return Probe(
            lambda text: [f"DROP STATISTICS {one.identity}", text],
            "SELECT pg_get_statisticsobjdef(s.oid) FROM pg_statistic_ext AS s JOIN pg_namespace AS n"
            f" ON n.oid = s.stxnamespace WHERE format('%I.%I', n.nspname, s.stxname) = {literal(one.identity)}",
        )

    def created(self, wanted: Statistics) -> list[str]:
        """CREATE STATISTICS."""
        return [wanted.definition]

    def altered(self, wanted: Statistics, found: Statistics, attribute: str) -> list[str]:
        """Drop it and make it again, or set the target."""
        match attribute:
            case "definition":
                return self.dropped(found) + self.created(wanted)
            case "target":
                target = -1 if wanted.target is None else wanted.target
                return [f"ALTER STATISTICS {wanted.identity} SET STATISTICS {target}"]
        return super().altered(wanted, found, attribute)
