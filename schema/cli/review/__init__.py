"""`schemactl review`: what each revision does, observed on a scratch server."""

import click

from schema.cli.context import Format
from schema.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "run": Lazy(
        "schema.cli.review.run",
        "Run revisions on a scratch server and say what a DBA must know.",
        (Format.MARKDOWN, Format.GITHUB, Format.HTML),
    ),
    "stats": Lazy("schema.cli.review.stats", "Save the sizes of production's tables for later reviews."),
}


class _Group(LazyGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`review REV` is `review run REV`."""
        if not args or args[0] not in {*COMMANDS, *ctx.help_option_names}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("review", cls=_Group, lazy=COMMANDS)
def command() -> None:
    """Say what each revision does, observed on a scratch server.

    `review REV` is short for `review run REV`.

    Works on any Alembic project whose env.py connects with psycopg 3. No database of yours is written to.
    """
