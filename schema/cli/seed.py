"""`schemactl seed`."""

import click

from schema.cli.context import App, Result, pass_app
from schema.cli.database import target

PROFILES = ("eras", "clean")
"""Values of `schema.seed.Profile`, whose package is too heavy to import for a help text; a test compares them."""


@click.command("seed")
@click.option(
    "--sessions", type=click.IntRange(min=0), required=True, help="How many sessions; 0 makes the cluster only."
)
@click.option("--seed", "seed_", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Which history.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="eras",
    show_default=True,
    help="eras: as real clusters are, with bad entries and divergent replicas; clean: without those.",
)
@pass_app
def command(app: App, sessions: int, seed_: int, profile: str) -> None:
    """Fill a database with realistic legacy sessions.

    Rows of every release's shape, over three years: domains, users, images, sessions, kernels and their allocations.
    No kernel groups: those are what `backfill` makes of them. The same numbers give the same rows, everywhere.

    Another --seed adds another tenant with sessions of its own. A seed that is in the database is refused, also
    when it was interrupted: a run commits 2,000 sessions at a time and cannot be continued.
    """
    from schema.cli.progress import progress
    from schema.pg.connect import connect
    from schema.seed import Profile, seed

    where = target(app)
    done = 0
    with connect(where) as connection, progress(app, "Seeding", sessions) as advance:

        def committed(count: int) -> None:
            nonlocal done
            done += count
            advance(count)

        try:
            report = seed(connection, sessions=sessions, seed=seed_, profile=Profile(profile), progress=committed)
        except KeyboardInterrupt:
            app.status(f"{done:,} of {sessions:,} sessions are written. Go on with another --seed.")
            raise
    rate = sessions / report.elapsed_s
    lines = [f"{table:<24} {count:>12,}" for table, count in report.rows.items() if count]
    lines.append(f"{report.elapsed_s:.1f} s, {rate:,.0f} sessions/s")
    data = {
        "database": {"url": where.masked, "source": where.source},
        "sessions": sessions,
        "seed": seed_,
        "profile": profile,
        "rows": dict(report.rows),
        "seconds": round(report.elapsed_s, 3),
    }
    app.finish(Result(data=data, text="\n".join(lines)))
