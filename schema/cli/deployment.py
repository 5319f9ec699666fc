"""`schemactl deployment`: what a deployment request becomes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import standing_target
from schema.cli.lazy import LazyGroup
from schema.errors import ExitCode

if TYPE_CHECKING:
    from schema.spec.merge import Layer
    from schema.write.preview import Preview
    from schema.write.rows import SessionRows

VARIANTS = ("vllm", "huggingface-tgi", "sglang", "nim", "modular-max", "cmd", "custom")
PRECEDENCES = ("definition", "request")

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_CELL_WIDTH = 60


@click.group("deployment", cls=LazyGroup, lazy={})
def command() -> None:
    """Show what a deployment request becomes."""


@command.command("preview")
@click.option("--request", "request_", type=_FILE, required=True, help="The deployment request, JSON.")
@click.option("--definition", type=_FILE, help="The model's service-definition.toml.")
@click.option("--variant", type=click.Choice(VARIANTS), help="The runtime variant. Default: the request's own.")
@click.option(
    "--precedence",
    type=click.Choice(PRECEDENCES),
    default="definition",
    show_default=True,
    help="Which document wins where both give a value.",
)
@click.option("--offline", is_flag=True, help="Ask no database.")
@click.option("--show-values", is_flag=True, help="Show the values of environment variables, which may be secrets.")
@pass_app
def preview(
    app: App,
    request_: Path,
    definition: Path | None,
    variant: str | None,
    precedence: str,
    offline: bool,
    show_values: bool,
) -> None:
    """Merge a request with a service definition and show the result.

    Shows each value with the document that it came from, the rows that a session of it writes, and every problem at
    once. It goes the way of the real write, and is rolled back. A database is asked when one is named or the embedded
    one is running; without, the command says what it could not check. Exit code 1 when there are problems.
    """
    from schema.pg.connect import engine
    from schema.spec.definition import ServiceDefinition
    from schema.spec.documents import parse_json, read_document
    from schema.spec.draft import RuntimeVariant
    from schema.spec.generator import variant_of
    from schema.spec.merge import Precedence
    from schema.write.preview import preview as run

    fields = parse_json(read_document(request_), str(request_))
    parsed = None if definition is None else ServiceDefinition.parse(read_document(definition), str(definition))
    wanted = variant_of(fields, RuntimeVariant(variant) if variant else None)
    where = None if offline else standing_target(app)
    if where is None:
        found = run(fields, parsed, wanted, Precedence(precedence), None)
    else:
        with engine(where).connect() as connection:
            found = run(fields, parsed, wanted, Precedence(precedence), connection)
    data = {
        "variant": wanted.value,
        "precedence": precedence,
        "values": [
            {"field": field, "value": value, "source": source}
            for field, value, source in _values(found.merged, show_values)
        ],
        "problems": [{**vars(problem), "field": problem.field} for problem in found.problems],
        "rows": None if found.rows is None else _rows(found.rows, show_values),
        "unchecked": list(found.unchecked),
    }
    exit_code = ExitCode.FAILED if found.problems else ExitCode.OK
    app.finish(Result(data, _text(found, wanted.value, precedence, show_values), exit_code))


def _values(merged: "Layer", show_values: bool) -> list[tuple[str, object, str]]:
    return [
        (
            ".".join(path),
            _shown(entry.value) if show_values or path[0] != "environ" else _hidden(entry.value),
            entry.source,
        )
        for path, entry in sorted(merged.items(), key=lambda item: item[0])
    ]


def _shown(value: object) -> object:
    """A value of any document, as JSON and a terminal can show it.

    What is nested where a value belongs is only said to be: it may be a variable in the wrong place.
    """
    from schema.spec.values import kind_of

    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, int) for item in value):
        return type(value)(map(_shown, value))
    if isinstance(value, Mapping | list | tuple):
        return f"({kind_of(value)})"
    # Python writes no integer of more than 4300 digits.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"(an integer of {value.bit_length()} bits)"
    return value


def _hidden(value: object) -> str:
    return f"({len(value)} characters)" if isinstance(value, str) else "(no text)"


def _rows(rows: "SessionRows", show_values: bool) -> dict[str, list[Mapping[str, Any]]]:
    environ: list[Mapping[str, Any]] = [
        vars(row) | ({} if show_values else {"value": _hidden(row.value)}) for row in rows.environ
    ]
    return {
        "kernel_groups": [vars(row) for row in rows.groups],
        "kernel_group_resource_slots": [{**vars(row), "quantity": format(row.quantity, "f")} for row in rows.slots],
        "kernel_group_environ": environ,
    }


def _text(found: "Preview", variant: str, precedence: str, show_values: bool) -> str:
    over = "definition over request" if precedence == "definition" else "request over definition"
    lines = [f"Revision for {variant}, {over}", ""]
    lines += _table(("field", "value", "from"), _values(found.merged, show_values))
    if found.rows is not None:
        for name, rows in _rows(found.rows, show_values).items():
            lines += ["", f"{name}: {len(rows) or 'no'} row{'' if len(rows) == 1 else 's'}"]
            if rows:
                lines += _table(tuple(rows[0]), [tuple(row.values()) for row in rows])
    if found.problems:
        lines += ["", f"{len(found.problems)} problem{'' if len(found.problems) == 1 else 's'}"]
        lines += [f"  {problem}" for problem in found.problems]
    if found.unchecked:
        lines += ["", "Not checked, for no database was asked:", *(f"  {what}" for what in found.unchecked)]
    return "\n".join(lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [header, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    ]


def _cell(value: object) -> str:
    text = "-" if value is None else str(value)
    if not text.isprintable():
        text = ascii(text)
    return text if len(text) <= _CELL_WIDTH else f"{text[: _CELL_WIDTH - 3]}..."
