"""What every command gets: the global options, and where data and status go."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from schema.errors import ExitCode, SchemaError, UsageError


class Format(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    GITHUB = "github"
    HTML = "html"


@dataclass(frozen=True)
class Result:
    """What a command found: `data` for JSON, `text` for people, the others where a command has them."""

    data: Mapping[str, Any]
    text: str
    exit_code: ExitCode = ExitCode.OK
    markdown: str | None = None
    github: str | None = None
    html: str | None = None


@dataclass
class App:
    """The global options of one call."""

    config: Path | None = None
    """The alembic.ini given with -c; None means the one found, see `schema.migrate.project`."""
    url: str | None = None
    pg_bindir: Path | None = None
    format: Format = Format.TEXT
    verbosity: int = 0
    """-1 quiet, 1 and 2 more."""
    command: str = "schemactl"

    def status(self, message: str) -> None:
        """Tell the person what is going on: stderr, silent with -q."""
        if self.verbosity >= 0:
            click.echo(message, err=True)

    def detail(self, message: str) -> None:
        """Tell more: stderr, with -v only."""
        if self.verbosity >= 1:
            click.echo(message, err=True)

    @property
    def interactive(self) -> bool:
        """Whether progress may be drawn: stderr is a terminal that can, and nobody asked for quiet."""
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and self.verbosity >= 0

    def finish(self, result: Result, output: Path | None = None) -> None:
        """Print a command's data in the format asked for, or write it to a file, and end with its exit code.

        Raises:
            UsageError: the file cannot be written.
        """
        text = self._formatted(result)
        if output is not None:
            try:
                output.write_text(f"{text}\n" if text else "", encoding="utf-8", errors="backslashreplace")
            except OSError as error:
                raise UsageError(f"{output} cannot be written: {error.strerror}") from error
            self.status(f"Wrote {output}.")
        elif text:
            click.echo(text)
        click.get_current_context().exit(result.exit_code)

    def _formatted(self, result: Result) -> str:
        if self.format is Format.JSON:
            return self._json(result.data, result.exit_code)
        texts = {
            Format.TEXT: result.text,
            Format.MARKDOWN: result.markdown,
            Format.GITHUB: result.github,
            Format.HTML: result.html,
        }
        text = texts[self.format]
        # The table of commands says which formats each has; others are refused before it runs.
        assert text is not None
        return text

    def fail(self, error: SchemaError) -> ExitCode:
        """Print an error as one paragraph, in JSON mode as an object too, and return its exit code."""
        click.echo(f"Error: {error.message.rstrip('.')}." + (f" {error.hint}" if error.hint else ""), err=True)
        if self.format is Format.JSON:
            problem = {"type": type(error).__name__, "message": error.message, "hint": error.hint}
            click.echo(self._json({"error": problem}, error.exit_code))
        return error.exit_code

    def _json(self, data: Mapping[str, Any], exit_code: ExitCode) -> str:
        import json
        from importlib.metadata import version

        envelope = {
            "command": self.command,
            "version": version("schemactl"),
            "ok": exit_code is ExitCode.OK,
            "exit_code": int(exit_code),
        }
        return json.dumps({**envelope, **data}, indent=2, default=str)


pass_app = click.make_pass_decorator(App)
