"""SQL of the kernel-group job. Parameters: `keys`, session ids; `run`, a run's id; `places`, ctids of kernels."""

from typing import Final

from schema.backfill.jobs.kernel_groups_spec import WITH_GROUP, WITHOUT_GROUP, spec_ctes

# Every table is read through an index by an array of keys, so joins are between what the batch holds, whose sizes the
# planner guesses badly (new tables have no statistics yet): a nested loop there is quadratic in the batch. Sequential
# scans are off because of the foreign keys: their checks are planned once per connection, by its first batch, when
# kernel_groups is almost empty and scanning it is cheapest; each row of a later batch would then scan all groups.
PLAN_FOR_ARRAYS: Final = "SET LOCAL enable_nestloop = off; SET LOCAL enable_seqscan = off"

# The keys come back as the text of two arrays, to be handed on as they are: to read and write thousands of ids takes
# Python longer than it takes the server to lock the rows. While a row is locked its place stays the same, also when
# the lock had to wait for an update that moved it: then this is the new place.
LOCK_KERNELS: Final = """
    SELECT array_agg(place)::text, array_agg(DISTINCT session_id)::text
    FROM (
        SELECT ctid AS place, session_id FROM kernels
        WHERE session_id = ANY(%(keys)s::uuid[]) AND kernel_group_id IS NULL
        ORDER BY id
        FOR NO KEY UPDATE
    ) AS locked
"""

PENDING: Final = """
    SELECT DISTINCT session_id FROM kernels
    WHERE kernel_group_id IS NULL
      AND (%(after)s::uuid IS NULL OR session_id > %(after)s::uuid)
      AND (%(upto)s::uuid IS NULL OR session_id <= %(upto)s::uuid)
    ORDER BY session_id
    LIMIT %(size)s
"""

PLACES: Final = """
    SELECT array_agg(ctid)::text FROM kernels WHERE session_id = ANY(%(keys)s::uuid[]) AND kernel_group_id IS NULL
"""

# A backfilled group tells by its id that it is one: a time-ordered UUID like the default's, so that index inserts
# append, but of version 8 ("custom") instead of 7. Verification must know, as an application's groups may hold
# something else than the rules give, and a column or a ledger row per group would cost more than the group.
_NEW_ID = "overlay(uuid_generate_v7()::text PLACING '8' FROM 15 FOR 1)::uuid"
_IS_BACKFILLED = "substr(g.id::text, 15, 1) = '8'"

# One statement, so that the rules are worked out once for all four tables. Whoever commits a (session, role) first owns
# it: the insert waits for an application's transaction that is inserting the same one, and does nothing when that
# commits. Only rows in `ours` get slots, variables and rejects.
WRITE: Final = f"""
WITH {spec_ctes(WITHOUT_GROUP)},
    ours AS (
        INSERT INTO kernel_groups (id, session_id, role, image_id, shmem, startup_command, preopen_ports,
                                   requested_starts_at, batch_timeout_sec)
        SELECT {_NEW_ID}, session_id, role, image_id, shmem_bytes, startup_command, preopen_ports,
               requested_starts_at, batch_timeout_sec
        FROM spec
        ORDER BY session_id, role
        ON CONFLICT (session_id, role) DO NOTHING
        RETURNING id, session_id, role
    ),
    new_slot AS (
        INSERT INTO kernel_group_resource_slots (kernel_group_id, slot_name, quantity)
        SELECT o.id, s.slot_name, s.quantity
        FROM ours AS o
        JOIN slot AS s ON s.session_id = o.session_id AND s.role = o.role
        WHERE s.reason IS NULL AND s.quantity > 0
        ORDER BY o.id, s.slot_name
        RETURNING 1
    ),
    new_variable AS (
        INSERT INTO kernel_group_environ (kernel_group_id, key, value)
        SELECT DISTINCT ON (o.id, v.key COLLATE "C") o.id, v.key, v.value
        FROM ours AS o
        JOIN variable AS v ON v.session_id = o.session_id AND v.role = o.role
        WHERE v.reason IS NULL
        ORDER BY o.id, v.key COLLATE "C", v.place DESC
        RETURNING 1
    ),
    new_reject AS (
        INSERT INTO backfill_rejects (run_id, session_id, kernel_id, field, reason, raw)
        SELECT %(run)s, r.session_id, r.kernel_id, r.field, r.reason, r.raw
        FROM reject AS r
        WHERE EXISTS (
            SELECT FROM ours AS o
            WHERE o.session_id = r.session_id AND (r.role IS NULL OR o.role = r.role)
        )
        RETURNING 1
    )
SELECT (SELECT count(*) FROM ours), (SELECT count(*) FROM new_slot), (SELECT count(*) FROM new_variable),
       (SELECT count(*) FROM new_reject),
       (SELECT count(*) FROM ours AS o JOIN divergent AS d ON d.session_id = o.session_id AND d.role = o.role)
"""

# A statement of its own: under READ COMMITTED its snapshot holds the groups that others committed while WRITE ran. By
# place, so that the rows are updated in the order in which they lie, without a look into the index.
LINK: Final = """
    UPDATE kernels AS k SET kernel_group_id = g.id
    FROM kernel_groups AS g
    WHERE k.ctid = ANY(%(places)s::tid[]) AND k.kernel_group_id IS NULL
      AND g.session_id = ANY(%(keys)s::uuid[]) AND g.session_id = k.session_id AND g.role = k.cluster_role
"""

PREVIEW: Final = f"""
WITH {spec_ctes(WITHOUT_GROUP)}
SELECT (SELECT count(DISTINCT session_id) FROM member),
       (SELECT count(*) FROM member),
       (SELECT count(*) FROM member WHERE kernel_group_id IS NULL),
       (SELECT count(*) FROM (SELECT DISTINCT session_id, role FROM member) AS roles),
       (SELECT count(*) FROM spec),
       (SELECT count(*) FROM slot WHERE reason IS NULL AND quantity > 0),
       (SELECT count(*) FROM (
           SELECT DISTINCT session_id, role, key COLLATE "C" FROM variable WHERE reason IS NULL) AS keys),
       (SELECT count(*) FROM reject AS r WHERE EXISTS (
           SELECT FROM spec AS p WHERE p.session_id = r.session_id AND (r.role IS NULL OR p.role = r.role))),
       (SELECT coalesce(array_agg(ARRAY[session_id::text, role, fields] ORDER BY session_id, role), '{{}}')
        FROM divergent)
"""

# Set differences both ways, so that a row too many, one too few and one that differs all show.
VERIFY: Final = f"""
WITH {spec_ctes(WITH_GROUP)},
    judged AS MATERIALIZED (
        SELECT g.*, {_IS_BACKFILLED} AND g.updated_at = g.created_at AS fails
        FROM existing AS g
        JOIN spec AS p ON p.session_id = g.session_id AND p.role = g.role
    ),
    wanted_column AS (
        SELECT session_id, role, name, value FROM spec CROSS JOIN LATERAL (VALUES
            ('image_id', image_id::text), ('shmem', shmem_bytes::text), ('startup_command', startup_command),
            ('preopen_ports', preopen_ports::text), ('requested_starts_at', requested_starts_at::text),
            ('batch_timeout_sec', batch_timeout_sec::text)) AS c (name, value)
    ),
    found_column AS (
        SELECT session_id, role, name, value FROM judged CROSS JOIN LATERAL (VALUES
            ('image_id', image_id::text), ('shmem', shmem::text), ('startup_command', startup_command),
            ('preopen_ports', preopen_ports::text), ('requested_starts_at', requested_starts_at::text),
            ('batch_timeout_sec', batch_timeout_sec::text)) AS c (name, value)
    ),
    wanted_slot AS (
        SELECT session_id, role, slot_name, quantity FROM slot WHERE reason IS NULL AND quantity > 0
    ),
    found_slot AS (
        SELECT g.session_id, g.role, s.slot_name, s.quantity
        FROM judged AS g JOIN kernel_group_resource_slots AS s ON s.kernel_group_id = g.id
        WHERE s.kernel_group_id = ANY(ARRAY(SELECT id FROM judged))
    ),
    wanted_variable AS (
        SELECT DISTINCT ON (session_id, role, key COLLATE "C") session_id, role, key, value
        FROM variable
        WHERE reason IS NULL
        ORDER BY session_id, role, key COLLATE "C", place DESC
    ),
    found_variable AS (
        SELECT g.session_id, g.role, v.key, v.value
        FROM judged AS g JOIN kernel_group_environ AS v ON v.kernel_group_id = g.id
        WHERE v.kernel_group_id = ANY(ARRAY(SELECT id FROM judged))
    ),
    difference (session_id, role, detail) AS (
        (SELECT session_id, role, name FROM (
            (TABLE wanted_column EXCEPT TABLE found_column) UNION (TABLE found_column EXCEPT TABLE wanted_column)) AS d)
        UNION
        (SELECT session_id, role, 'slot ' || slot_name FROM (
            (TABLE wanted_slot EXCEPT TABLE found_slot) UNION (TABLE found_slot EXCEPT TABLE wanted_slot)) AS d)
        UNION
        (SELECT session_id, role, 'environ ' || key FROM (
            (TABLE wanted_variable EXCEPT TABLE found_variable)
            UNION (TABLE found_variable EXCEPT TABLE wanted_variable)) AS d)
    )
SELECT 'unlinked' AS name, session_id, role, 'kernel ' || kernel_id AS detail, true AS fails
FROM member WHERE kernel_group_id IS NULL
UNION ALL
SELECT 'mislinked', m.session_id, m.role, 'kernel ' || m.kernel_id, true
FROM member AS m
LEFT JOIN existing AS g ON g.id = m.kernel_group_id AND g.session_id = m.session_id AND g.role = m.role
WHERE m.kernel_group_id IS NOT NULL AND g.id IS NULL
UNION ALL
SELECT 'empty', g.session_id, g.role, 'group ' || g.id, true
FROM existing AS g
WHERE g.id NOT IN (
    SELECT kernel_group_id FROM kernels WHERE kernel_group_id = ANY(ARRAY(SELECT id FROM existing)))
UNION ALL
SELECT CASE WHEN g.fails THEN 'spec' ELSE 'differs' END, d.session_id, d.role,
       string_agg(d.detail, ', ' ORDER BY d.detail), g.fails
FROM difference AS d
JOIN judged AS g ON g.session_id = d.session_id AND g.role = d.role
GROUP BY g.fails, d.session_id, d.role
UNION ALL
SELECT 'divergent', session_id, role, fields, false FROM divergent
ORDER BY session_id, role, name, detail
"""
