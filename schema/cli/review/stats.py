"""`schemactl review stats`."""

from pathlib import Path

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import project, target
from schema.errors import UsageError


@click.command("stats")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write them to this file.")
@pass_app
def command(app: App, output: Path | None) -> None:
    """Save the sizes of production's tables for later reviews.

    Reads rows and pages as ANALYZE left them in the catalog of the database that --url names, the names of the
    server's roles, and nothing else.
    """
    import json

    from schema.review.estimate import dump_production, read_production

    production = read_production(target(app, project(app)))
    data = dump_production(production)
    if output is not None:
        try:
            output.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {error.strerror}") from error
        app.status(f"Wrote {output}.")
    lines = [f"{name}: {size.rows:,} rows, {size.bytes:,} bytes" for name, size in production.sizes.items()]
    app.finish(Result(data, "\n".join(lines)))
