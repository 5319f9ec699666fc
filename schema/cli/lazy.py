"""A click group that imports a command's module only when the command is run."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from schema.cli.context import App, Format
from schema.errors import UsageError


class Lazy(NamedTuple):
    """Where a command is, and the line that the group's help shows for it (a test holds it to the command's own)."""

    module: str
    short_help: str
    more_formats: tuple[Format, ...] = ()
    """What it prints beside text and JSON (a test holds it to the command's own)."""


class LazyGroup(click.Group):
    """A group whose commands are named in a table: `{name: Lazy(module, short help)}`.

    Each module has its command under the name `command`.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table, then those added directly."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command; None when there is none of that name."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        command: click.Command = import_module(self.lazy[cmd_name].module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and note its full name for messages."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and (app := ctx.find_object(App)) is not None:
            app.command = f"{ctx.command_path} {name}".partition(" ")[2]
            if not isinstance(command, LazyGroup):
                self._check_format(Format(ctx.find_root().params.get("format_", Format.TEXT)), name, app)
        return name, command, rest

    def _check_format(self, wanted: Format, name: str, app: App) -> None:
        """Refuse a format before the command has done anything."""
        more = self.lazy[name].more_formats if name in self.lazy else ()
        if wanted not in (Format.TEXT, Format.JSON, *more):
            raise UsageError(
                f"`{app.command}` has no {wanted} output",
                hint=f"Use --format {', '.join(['text', *more])} or json.",
            )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        rows = [(name, entry.short_help) for name, entry in self.lazy.items()]
        for name in super().list_commands(ctx):
            added = self.commands[name]
            rows.append((name, added.get_short_help_str(formatter.width)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
