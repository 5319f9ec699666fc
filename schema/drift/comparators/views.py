"""Views, materialised views and rules."""

from schema.drift.comparators.base import Comparator, Probe, granted, literal, set_options
from schema.pg.catalog import Kind
from schema.pg.catalog.views import Rule, View


class ViewComparator(Comparator):
    """Views. Whether a materialised one is populated is data."""

    kinds = (Kind.VIEW,)
    noun = "VIEW"

    def attributes(self, found: View) -> dict[str, object]:
        """All but whether it was refreshed."""
        attributes = super().attributes(found)
        del attributes["populated"]
        return attributes

    def option_defaults(self, found: View) -> dict[str, str]:
        """Of views, and of materialised ones, which are stored as tables are."""
        if found.materialized:
            return {"fillfactor": "100", "autovacuum_enabled": "on"}
        return {"security_barrier": "off", "security_invoker": "off"}

    def probe(self, one: View, attribute: str) -> Probe | None:
        """The view is dropped and made again."""
        if attribute != "definition":
            return None
        return Probe(
            lambda text: [f"DROP {_noun(one)} {one.identity} CASCADE", _create(one, text)],
            f"SELECT pg_get_viewdef({literal(one.identity)}::regclass)",
        )

    def created(self, wanted: View) -> list[str]:
        """CREATE VIEW."""
        return [_create(wanted, wanted.definition)]

    def dropped(self, found: View) -> list[str]:
        """DROP VIEW."""
        return [f"DROP {_noun(found)} {found.identity}"]

    def renamed(self, wanted: View, found: View) -> list[str]:
        """RENAME."""
        return [f"ALTER {_noun(found)} {found.identity} RENAME TO {wanted.name}"]

    def altered(self, wanted: View, found: View, attribute: str) -> list[str]:
        """Replace or ALTER it; a materialised view would lose its indexes."""
        match attribute:
            case "definition" if not wanted.materialized and not found.materialized:
                # Keeps what was granted on it; the server refuses when columns went or changed.
                return [_create(wanted, wanted.definition).replace("CREATE ", "CREATE OR REPLACE ", 1)]
            case "options":
                return set_options(_noun(wanted), wanted.identity, wanted.options, found.options)
            case "comment":
                return [f"COMMENT ON {_noun(wanted)} {wanted.identity} IS {literal(wanted.comment)}"]
            case "privileges":
                return granted("TABLE", wanted.identity, wanted.owner, wanted.privileges, found.privileges)
            case "owner":
                return [f"ALTER {_noun(wanted)} {wanted.identity} OWNER TO {wanted.owner}"]
        return []


class RuleComparator(Comparator):
    """Rewrite rules."""

    kinds = (Kind.RULE,)
    noun = "RULE"

    def probe(self, one: Rule, attribute: str) -> Probe | None:
        """Dropped and made again."""
        if attribute != "definition":
            return None
        return Probe(
            lambda text: [f"DROP RULE {self.on_table(one)} CASCADE", text],
            f"SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = {literal(one.table)}::regclass"
            f" AND quote_ident(rulename) = {literal(one.name)}",
        )

    def created(self, wanted: Rule) -> list[str]:
        """CREATE RULE."""
        return [wanted.definition.rstrip(";")]

    def renamed(self, wanted: Rule, found: Rule) -> list[str]:
        """RENAME."""
        return [f"ALTER RULE {found.name} ON {wanted.table} RENAME TO {wanted.name}"]

    def altered(self, wanted: Rule, found: Rule, attribute: str) -> list[str]:
        """Drop it and make it again, or change when it applies."""
        match attribute:
            case "definition":
                return self.dropped(found) + self.created(wanted)
            case "enabled":
                return [f"ALTER TABLE {wanted.table} {STATES[wanted.enabled]} RULE {wanted.name}"]
        return super().altered(wanted, found, attribute)

    def name(self, found: Rule) -> str:
        """Name and table."""
        return self.on_table(found)


STATES = {
    "enabled": "ENABLE",
    "disabled": "DISABLE",
    "replica only": "ENABLE REPLICA",
    "always": "ENABLE ALWAYS",
}
"""ALTER TABLE's words for the state of a trigger or rule."""


def _noun(view: View) -> str:
    return "MATERIALIZED VIEW" if view.materialized else "VIEW"


def _create(view: View, definition: str) -> str:
    options = f" WITH ({', '.join(view.options)})" if view.options else ""
    return f"CREATE {_noun(view)} {view.identity}{options} AS {definition.strip().rstrip(';')}"
