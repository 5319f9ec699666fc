"""Bootstrap scripts, each stored once and shared by every group and revision that uses it."""

import hashlib
from collections.abc import Iterable

from sqlalchemy import Connection, text

from schema.identity import BootstrapScriptRevisionID

# Ordered, so that two transactions that store the same new scripts wait for each other in one order. An insert waits
# for a transaction that is inserting the same digest, and does nothing when that commits.
_STORE = text(
    """
    INSERT INTO bootstrap_script_revisions (digest, script)
    SELECT digest, script
    FROM unnest(CAST(:digests AS text[]), CAST(:scripts AS text[])) AS given (digest, script)
    WHERE NOT EXISTS (SELECT FROM bootstrap_script_revisions AS b WHERE b.digest = given.digest)
    ORDER BY digest
    ON CONFLICT (digest) DO NOTHING
    """
)

# A statement of its own: under READ COMMITTED its snapshot has what others committed while the insert waited. The
# lock keeps a script from being deleted before the row that refers to it is there.
_FIND = text(
    """
    SELECT digest, id FROM bootstrap_script_revisions
    WHERE digest = ANY(CAST(:digests AS text[])) ORDER BY digest FOR KEY SHARE
    """
)


def store_scripts(connection: Connection, scripts: Iterable[str | None]) -> dict[str | None, BootstrapScriptRevisionID]:
    """Store the scripts that are not there yet; two statements, none when there is no script.

    Again, when somebody who cleans up has deleted one between the two.

    Returns:
        The id of each script.
    """
    digests = {hashlib.sha256(script.encode()).hexdigest(): script for script in scripts if script is not None}
    if not digests:
        return {}
    found: dict[str | None, BootstrapScriptRevisionID] = {}
    while len(found) < len(digests):
        connection.execute(_STORE, {"digests": list(digests), "scripts": list(digests.values())})
        rows = connection.execute(_FIND, {"digests": list(digests)})
        found = {digests[row.digest]: BootstrapScriptRevisionID(int=row.id.int) for row in rows}
    return found
