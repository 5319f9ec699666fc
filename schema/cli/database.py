"""Which project and which database a command works on."""

from typing import TYPE_CHECKING

from schema.cli.context import App

if TYPE_CHECKING:
    from schema.migrate.project import Project
    from schema.pg.target import Target


def project(app: App) -> "Project":
    """Open the Alembic project that -c names, or the one found."""
    from schema.migrate.project import Project, find_config

    found = Project.open(find_config(app.config))
    app.detail(f"Project: {found.ini}")
    return found


def target(app: App, of: "Project | None" = None) -> "Target":
    """Find the database that is meant, of a project opened before or of the one found, and say which on stderr."""
    from schema.migrate.project import state_dir
    from schema.pg.target import resolve_target

    of = of or project(app)
    found = resolve_target(
        app.url,
        ini_url=of.url,
        state_dir=state_dir(of.ini),
        pg_bindir=app.pg_bindir,
    )
    app.status(f"Database: {found.masked} (from {found.source})")
    return found
