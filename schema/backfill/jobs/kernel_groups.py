"""The job that gives existing sessions their kernel groups; docs/backfill.md says by which rules."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from psycopg import Connection

from schema.backfill.job import Finding, Key, Parent, Preview, Row
from schema.backfill.jobs import kernel_groups_sql as statements


class KernelGroups:
    """One group per session and role, its slots and environ, and the links from the kernels."""

    name: Final = "kernel_groups"
    parent: Final = Parent(table="sessions", key="id", key_type="uuid")
    new_tables: Final = ("kernel_groups", "kernel_group_resource_slots", "kernel_group_environ")
    updated_tables: Final = ("kernels",)

    def pending(self, connection: Connection[Row], after: str | None, upto: str | None, size: int) -> list[Key]:
        """Find sessions with a kernel that has no link."""
        parameters = {"after": after, "upto": upto, "size": size}
        return [row[0] for row in connection.execute(statements.PENDING, parameters)]

    def explain(self, connection: Connection[Row], run_id: UUID, keys: Sequence[Key]) -> list[str]:
        """Plans of the three statements of `write`."""
        connection.execute(statements.PLAN_FOR_ARRAYS)
        row = connection.execute(statements.PLACES, {"keys": keys}).fetchone()
        assert row is not None
        parameters = {"keys": keys, "run": run_id, "places": row[0]}
        lines: list[str] = []
        for statement in (statements.LOCK_KERNELS, statements.WRITE, statements.LINK):
            lines += (row[0] for row in connection.execute(f"EXPLAIN {statement}", parameters))
        return lines

    def write(self, connection: Connection[Row], run_id: UUID, keys: Sequence[Key]) -> Mapping[str, int]:
        """Write the sessions' groups and link their kernels.

        Locks, after the sessions that the engine holds FOR KEY SHARE: the kernels to link FOR NO KEY UPDATE, ordered
        by id. An application that links one of them waits for us, or we for it; then its link is there and the kernel
        is none of ours any more. It may insert a session's group meanwhile: see `WRITE` and `LINK`.
        """
        connection.execute(statements.PLAN_FOR_ARRAYS)
        locked = connection.execute(statements.LOCK_KERNELS, {"keys": f"{{{','.join(map(str, keys))}}}"}).fetchone()
        assert locked is not None
        places, sessions = locked
        counts: Row = (0, 0, 0, 0, 0)
        linked = 0
        if places is not None:
            row = connection.execute(statements.WRITE, {"keys": sessions, "run": run_id}).fetchone()
            assert row is not None
            counts = row
            linked = connection.execute(statements.LINK, {"keys": sessions, "places": places}).rowcount
        return {
            **dict(zip(("groups", "slots", "environ", "rejects", "divergent"), counts, strict=True)),
            "linked": linked,
        }

    def preview(self, connection: Connection[Row], keys: Sequence[Key]) -> Preview:
        """Count the kernels to link and the rows to write, and name the divergent roles."""
        connection.execute(statements.PLAN_FOR_ARRAYS)
        row = connection.execute(statements.PREVIEW, {"keys": keys}).fetchone()
        assert row is not None
        *counts, divergent = row
        names = (
            "sessions_with_kernels",
            "kernels",
            "unlinked",
            "roles",
            "groups",
            "slots",
            "environ",
            "rejects",
        )
        return Preview(
            {**dict(zip(names, counts, strict=True)), "divergent": len(divergent)},
            [Finding("divergent", UUID(key), role, fields, fails=False) for key, role, fields in divergent],
        )

    def verify(self, connection: Connection[Row], keys: Sequence[Key]) -> Sequence[Finding]:
        """Find kernels without link or with a wrong one, groups without kernels, and specs that the rules don't give.

        A spec difference fails in a group that the backfill made and nobody has updated since (`spec`); in any other
        it is reported only (`differs`), like divergent roles.
        """
        connection.execute(statements.PLAN_FOR_ARRAYS)
        return [Finding(*row) for row in connection.execute(statements.VERIFY, {"keys": keys})]
