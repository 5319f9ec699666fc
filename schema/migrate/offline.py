"""Scripts instead of runs: made without asking the database, and refused by a database that is elsewhere."""

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep

from schema.errors import RevisionError, SchemaError

MARK = "needs_connection"
"""A revision that has to ask the database says `needs_connection = True` at the top of its module."""


def scripted(
    steps: Sequence[MigrationStep], heads: Sequence[str], migration: MigrationContext
) -> Iterator[MigrationStep]:
    """The steps of a script, with a guard before the first: it ends the session of a database that is not at `heads`.

    Raises:
        RevisionError: a revision needs a connection.
    """
    revisions = [step for step in steps if isinstance(step, RevisionStep)]
    if marked := [step.revision.revision for step in revisions if getattr(step.revision.module, MARK, False)]:
        raise _needs_connection(", ".join(marked), f"{MARK} = True in it says so")
    if revisions:
        migration.impl.static_output(version_guard(migration, heads))
    for step in steps:
        yield _explained(step) if isinstance(step, RevisionStep) else step


def version_guard(migration: MigrationContext, heads: Sequence[str]) -> str:
    """A statement that passes on a database at exactly these revisions."""
    quote = migration.dialect.identifier_preparer.quote_identifier
    parts = (migration.version_table_schema, migration.version_table)
    table = ".".join(quote(part) for part in parts if part)
    query = f"SELECT coalesce(array_agg(version_num::text ORDER BY version_num COLLATE \"C\"), '{{}}') FROM {table}"
    expected = f"ARRAY[{', '.join(_literal(head) for head in sorted(heads))}]::text[]"
    # An error alone would not do: psql goes on after one by default, with statements outside of transactions too.
    return f"""-- Only for a database at: {", ".join(sorted(heads)) or "no revision"}. The session ends on any other.
DO $guard$
DECLARE
    found text[] := ARRAY[]::text[];
BEGIN
    IF to_regclass({_literal(table)}) IS NOT NULL THEN
        EXECUTE {_literal(query)} INTO found;
    END IF;
    IF found <> {expected} THEN
        RAISE WARNING 'this script is for a database at %, and this one is at %; nothing was changed',
            coalesce(nullif(array_to_string({expected}, ', '), ''), 'no revision'),
            coalesce(nullif(array_to_string(found, ', '), ''), 'no revision');
        PERFORM pg_terminate_backend(pg_backend_pid());
        RAISE EXCEPTION 'this script is for a database at another revision';
    END IF;
END
$guard$;
"""


def _explained(step: RevisionStep) -> RevisionStep:
    explained = copy.copy(step)
    original = step.migration_fn

    @functools.wraps(original)
    def run(**keywords: Any) -> None:
        try:
            original(**keywords)
        except SchemaError:
            raise
        except NotImplementedError:
            # A downgrade that there is not, with its reason.
            raise
        except Exception as error:
            # Without a connection a query has no result; what a revision makes of that has many names.
            raise _needs_connection(step.revision.revision, f"{type(error).__name__}: {error}") from error

    explained.migration_fn = run
    return explained


def _needs_connection(revisions: str, why: str) -> RevisionError:
    return RevisionError(
        f"{revisions} cannot be written as a script, since it needs a connection to the database ({why})",
        hint="Run it with `schemactl upgrade`, or make scripts of the revisions before and after it.",
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
