"""The command line: one file per command; parse, call one function, print."""

from schema.cli.app import run

__all__ = ["run"]
