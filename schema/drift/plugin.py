"""Alembic's plugin: with it `alembic check` and `alembic revision --autogenerate` see what `schemactl drift` sees.

One line in an env.py switches it on,

    autogenerate_plugins=["alembic.autogenerate.*", "~alembic.autogenerate.defaults", "schema.drift"],

as an argument of context.configure().

Alembic's comparison of defaults is left out because it runs a SELECT that some changes of type make fail; defaults are
compared here. Alembic imports this module whenever it is imported itself, so all else is imported when it is needed.
"""

from typing import TYPE_CHECKING

from alembic.util import DispatchPriority, PriorityDispatchResult

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext
    from alembic.operations.ops import UpgradeOps
    from alembic.runtime.plugins import Plugin


def setup(plugin: "Plugin") -> None:
    """Register the comparison; it runs after all others, to know what they have found."""
    plugin.add_autogenerate_comparator(
        _compare, "autogenerate", "schema_drift", qualifier="postgresql", priority=DispatchPriority.LAST
    )


def _compare(autogen_context: "AutogenContext", upgrade_ops: "UpgradeOps") -> PriorityDispatchResult:
    from schema.drift.autogenerate import complete

    complete(autogen_context, upgrade_ops)
    return PriorityDispatchResult.CONTINUE
