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


def standing_target(app: App) -> "Target | None":
    """Find the database that is meant, without starting one: None when no database is named and none is running."""
    from schema.migrate.project import state_dir
    from schema.pg.embedded import EmbeddedServer
    from schema.pg.target import embedded_target, named_target

    of = project(app)
    found = named_target(app.url, ini_url=of.url)
    if found is None:
        server = EmbeddedServer(state_dir(of.ini), app.pg_bindir)
        if server.status().running:
            found = embedded_target(server)
    if found is not None:
        app.status(f"Database: {found.masked} (from {found.source})")
    return found
