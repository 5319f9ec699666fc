"""`schemactl lineage`: the history across releases."""

import click

from schema.cli.context import Format
from schema.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "show": Lazy(
        "schema.cli.lineage.show", "Draw the history for a terminal, or as Mermaid or DOT.", (Format.MARKDOWN,)
    ),
    "skipped": Lazy("schema.cli.lineage.skipped", "Name the revisions that an upgrade would never run."),
    "integrity": Lazy("schema.cli.lineage.integrity", "Find released revisions that were edited.", (Format.GITHUB,)),
    "freeze": Lazy("schema.cli.lineage.freeze", "Write a release's version into its new revisions."),
    "dump": Lazy("schema.cli.lineage.dump", "Write the history of a release as JSON."),
    "backport": Lazy("schema.cli.lineage.backport", "Put a copy of a fix at an old release's point."),
}


@click.group("lineage", cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Show and check the history across releases.

    Works on any Alembic project, from its files and git; nothing is imported or run.
    """
