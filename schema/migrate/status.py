"""Where a database stands in a project's history."""

from dataclasses import dataclass

import psycopg

from schema.lineage.findings import Finding
from schema.lineage.skipped import Skipped
from schema.migrate.journal import Unfinished
from schema.migrate.lock import Holder, runner_lock_holder
from schema.migrate.missing import Sources, edited_releases, layout_of, skipped_in
from schema.migrate.project import Project, Revision
from schema.migrate.runner import version_table
from schema.pg.connect import connect
from schema.pg.errors import translate
from schema.pg.target import Target

_WAITING = """
SELECT pid, pg_blocking_pids(pid), extract(epoch FROM clock_timestamp() - coalesce(state_change, now()))::float
FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND cardinality(pg_blocking_pids(pid)) > 0
ORDER BY pid
"""

_TABLES = """
SELECT count(*)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'p') AND relname <> %s
  AND nspname <> 'information_schema' AND nspname !~ '^pg_'
"""


@dataclass(frozen=True)
class Waiting:
    """A session that waits for locks of others."""

    pid: int
    blocked_by: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class DatabaseStatus:
    """What a database is at, what the history has, and what lies between."""

    server_version: str
    """As the server says it: `18.1`."""
    current: tuple[str, ...]
    heads: tuple[str, ...]
    pending: tuple[Revision, ...]
    tables: int
    """Tables of any owner and schema, without the version table."""
    skipped: tuple[Skipped, ...] = ()
    """What never ran here, for each history that had its revision; nothing without git."""
    findings: tuple[Finding, ...] = ()
    """Released revisions that were edited."""
    runner: Holder | None = None
    """Who is upgrading or downgrading the database just now."""
    unfinished: Unfinished | None = None
    """A revision that is between its transactions: under way, or left there by a run that ended."""
    waiting: tuple[Waiting, ...] = ()

    @property
    def foreign(self) -> bool:
        """Whether the database has tables, but no revision says that they come from a history."""
        return not self.current and self.tables > 0


def database_status(project: Project, target: Target) -> DatabaseStatus:
    """Look up where a database stands. Changes nothing.

    Raises:
        DatabaseError: it cannot be reached or read.
        RevisionError: it is at a revision that the history does not know.
    """
    versions = version_table(project, target)
    try:
        with connect(target, autocommit=True) as connection:
            version = connection.execute("SHOW server_version").fetchone()
            tables = connection.execute(_TABLES, [versions.name]).fetchone()
            runner = runner_lock_holder(connection)
            waiting = tuple(Waiting(pid, tuple(by), age) for pid, by, age in connection.execute(_WAITING))
    except psycopg.Error as error:
        raise translate(error) or error from error
    assert version is not None
    assert tables is not None
    pending = project.pending(versions.heads)
    layout = layout_of(project.script, project.ini)
    return DatabaseStatus(
        version[0].split()[0],
        versions.heads,
        project.heads(),
        pending,
        tables[0],
        tuple(found for found in skipped_in(layout, versions.heads, versions.ran_late, Sources()) if not found.clean),
        edited_releases(layout),
        runner,
        versions.unfinished,
        waiting,
    )
