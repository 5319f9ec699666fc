"""Triggers and event triggers."""

from typing import Any

from schema.drift.comparators.base import Comparator, Probe, literal
from schema.drift.comparators.views import STATES
from schema.pg.catalog import Kind
from schema.pg.catalog.triggers import EventTrigger, Trigger


class TriggerComparator(Comparator):
    """Triggers of tables and of the database."""

    kinds = (Kind.TRIGGER, Kind.EVENT_TRIGGER)

    def summary(self, found: Any) -> str | None:
        """The definition."""
        if isinstance(found, EventTrigger):
            return f"EVENT TRIGGER ON {found.event} EXECUTE FUNCTION {found.function}"
        definition: str | None = found.definition
        return definition

    def probe(self, one: Any, attribute: str) -> Probe | None:
        """Dropped and made again."""
        if attribute != "definition" or not isinstance(one, Trigger):
            return None
        return Probe(
            lambda text: [f"DROP TRIGGER {self.on_table(one)} CASCADE", text],
            f"SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = {literal(one.table)}::regclass"
            f" AND quote_ident(tgname) = {literal(one.name)}",
        )

    def created(self, wanted: Any) -> list[str]:
        """CREATE TRIGGER."""
        if isinstance(wanted, Trigger):
            return [wanted.definition] if wanted.definition else []
        tags = f" WHEN TAG IN ({', '.join(literal(tag) for tag in wanted.tags)})" if wanted.tags else ""
        return [f"CREATE EVENT TRIGGER {wanted.name} ON {wanted.event}{tags} EXECUTE FUNCTION {wanted.function}"]

    def dropped(self, found: Any) -> list[str]:
        """DROP TRIGGER."""
        return [f"DROP {self._called(found)}"]

    def renamed(self, wanted: Any, found: Any) -> list[str]:
        """RENAME."""
        return [f"ALTER {self._called(found)} RENAME TO {wanted.name}"]

    def altered(self, wanted: Any, found: Any, attribute: str) -> list[str]:
        """Drop it and make it again, or change when it fires."""
        match attribute:
            case "enabled" if isinstance(wanted, Trigger):
                return [f"ALTER TABLE {wanted.table} {STATES[wanted.enabled]} TRIGGER {wanted.name}"]
            case "enabled":
                return [f"ALTER EVENT TRIGGER {wanted.name} {STATES[wanted.enabled]}"]
            case "comment":
                return [f"COMMENT ON {self._called(wanted)} IS {literal(wanted.comment)}"]
            case "owner":
                return [f"ALTER {self._called(wanted)} OWNER TO {wanted.owner}"]
        return self.dropped(found) + self.created(wanted)

    def _called(self, found: Any) -> str:
        return f"TRIGGER {self.on_table(found)}" if isinstance(found, Trigger) else f"EVENT TRIGGER {found.name}"
