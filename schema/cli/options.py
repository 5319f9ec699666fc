"""Types of options that click does not have."""

import re
from datetime import timedelta
from typing import Any

import click

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[timedelta]):
    """A time span: `90`, `75ms`, `90s`, `15m`, `2h`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read the text, a number of seconds when it has no unit."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|[smh]?)", value)
        if match is None:
            self.fail(f"{value!r} is no time span such as 75ms, 90s, 15m or 2h", param, ctx)
        return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
