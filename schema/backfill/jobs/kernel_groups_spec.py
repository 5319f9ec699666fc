"""SQL of the kernel-group rules: what the groups of some sessions should be, as CTEs that the job's statements share.

Parameter `keys` is an array of session ids. The CTEs to read are `spec` (a row per group), `slot`, `variable`,
`divergent` and `reject`. All are MATERIALIZED: each is computed once and read by several consumers, and the planner
cannot push one consumer's condition into the parsing of all rows. They are CTEs and not temporary tables, because a
table per batch would bloat the catalogs of a busy server. Large tables are read once each, through the index on the
sessions or kernels at hand; everything after that is joined by hash within the batch.
"""

from typing import Final

from schema.backfill.jobs.iso8601 import timestamp_sql
from schema.environ import ENVIRON_KEY_MAX_LENGTH, ENVIRON_KEY_PATTERN
from schema.quantity import BYTE_SIZE_MAX, byte_size_sql, slot_quantity_sql

# "C" for the role: it is only grouped and ordered by, and a linguistic collation costs more than all the rest of it.
MEMBERS: Final = """
    member AS MATERIALIZED (
        SELECT k.id AS kernel_id, k.session_id, k.cluster_role COLLATE "C" AS role, k.cluster_idx, k.local_rank,
               k.created_at, k.image_id, k.startup_command, coalesce(k.preopen_ports, '{}') AS preopen_ports,
               k.environ, k.resource_opts, k.kernel_group_id
        FROM kernels AS k
        WHERE k.session_id = ANY(%(keys)s::uuid[])
    ),
    existing AS MATERIALIZED (
        SELECT * FROM kernel_groups WHERE session_id = ANY(%(keys)s::uuid[])
    )"""
"""The sessions' kernels, and the groups they have."""

WITHOUT_GROUP: Final = "NOT EXISTS (SELECT FROM existing AS e WHERE e.session_id = m.session_id AND e.role = m.role)"
WITH_GROUP: Final = "EXISTS (SELECT FROM existing AS e WHERE e.session_id = m.session_id AND e.role = m.role)"

_VALID_KEY = f"length(key) <= {ENVIRON_KEY_MAX_LENGTH} AND key ~ '{ENVIRON_KEY_PATTERN}'"

# A CASE is evaluated in order, so the cast sees numbers only.
_TIMEOUT = f"""CASE WHEN jsonb_typeof(timeout) = 'number'
            THEN CASE WHEN timeout::numeric BETWEEN 0 AND {BYTE_SIZE_MAX} AND timeout::numeric = trunc(timeout::numeric)
                      THEN timeout::numeric::bigint END END"""


def _present(json: str) -> str:
    """SQL condition: the jsonb expression is neither missing nor JSON null."""
    return f"coalesce(jsonb_typeof({json}), 'null') <> 'null'"


def _text_quantity(json: str) -> str:
    """SQL condition: the jsonb expression is of a type that a quantity can have."""
    return f"jsonb_typeof({json}) IN ('number', 'string')"


def spec_ctes(roles: str) -> str:
    """The CTEs for those roles that the SQL condition on member `m` picks, `MEMBERS` included."""
    return f"""{MEMBERS},
    representative AS MATERIALIZED (
        SELECT DISTINCT ON (m.session_id, m.role) m.*
        FROM member AS m
        WHERE {roles}
        ORDER BY m.session_id, m.role, m.cluster_idx, m.local_rank, m.created_at NULLS LAST, m.kernel_id
    ),
    session AS MATERIALIZED (
        SELECT s.id AS session_id, s.environ, s.requested_starts_at, s.batch_timeout,
               s.options -> 'kernel_groups' AS groups,
               CASE WHEN jsonb_typeof(s.options) NOT IN ('object', 'null') THEN s.options END AS bad_options
        FROM sessions AS s
        WHERE s.id = ANY(%(keys)s::uuid[])
    ),
    entry AS MATERIALIZED (
        SELECT s.session_id, e.entry, named.role, e.place,
               row_number() OVER (PARTITION BY s.session_id, named.role ORDER BY e.place) AS turn
        FROM session AS s
        CROSS JOIN LATERAL jsonb_array_elements(CASE WHEN jsonb_typeof(s.groups) = 'array' THEN s.groups END)
            WITH ORDINALITY AS e (entry, place)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN jsonb_typeof(e.entry -> 'role') = 'string' THEN e.entry ->> 'role' END COLLATE "C"
        ) AS named (role)
    ),
    asked AS MATERIALIZED (
        SELECT r.session_id, r.role, r.kernel_id, r.image_id, r.startup_command, r.preopen_ports,
               r.environ AS environ_list, s.environ AS environ_object,
               h.session_id IS NOT NULL AS holds_groups,
               e.role IS NOT NULL AS in_options,
               e.entry -> 'execution_spec' AS execution,
               s.requested_starts_at AS session_starts_at, s.batch_timeout AS session_timeout,
               r.resource_opts, r.resource_opts -> 'shmem' AS shmem
        FROM representative AS r
        JOIN session AS s ON s.session_id = r.session_id
        LEFT JOIN entry AS e ON e.session_id = r.session_id AND e.role = r.role AND e.turn = 1
        -- Joined, for an EXISTS may be answered by a look at every entry for every role.
        LEFT JOIN (SELECT DISTINCT session_id FROM entry WHERE role IS NOT NULL) AS h ON h.session_id = r.session_id
    ),
    -- Parsed once per spelling: there are few, and a match with captures is the dearest expression of all.
    size AS MATERIALIZED (
        SELECT text, {byte_size_sql("text")} AS bytes
        FROM (
            SELECT DISTINCT a.shmem #>> '{{}}' COLLATE "C" AS text FROM asked AS a WHERE {_text_quantity("a.shmem")}
        ) AS said
    ),
    spec AS MATERIALIZED (
        SELECT a.*, raw.starts_at AS raw_starts_at, raw.timeout AS raw_timeout, z.bytes AS shmem_bytes,
               CASE WHEN NOT a.in_options THEN a.session_starts_at
                    WHEN jsonb_typeof(raw.starts_at) = 'string' THEN {timestamp_sql("(raw.starts_at #>> '{}')")}
               END AS requested_starts_at,
               CASE WHEN a.in_options THEN {_TIMEOUT} ELSE a.session_timeout END AS batch_timeout_sec,
               coalesce(cardinality(a.environ_list), 0) > 0 AS from_list
        FROM asked AS a
        CROSS JOIN LATERAL (
            SELECT a.execution -> 'starts_at' AS starts_at, a.execution -> 'batch_timeout_sec' AS timeout
        ) AS raw
        LEFT JOIN size AS z ON z.text = a.shmem #>> '{{}}' COLLATE "C" AND {_text_quantity("a.shmem")}
    ),
    allocation AS MATERIALIZED (
        SELECT kernel_id, slot_name, requested
        FROM resource_allocations
        WHERE kernel_id = ANY(ARRAY(SELECT m.kernel_id FROM member AS m WHERE {roles}))
    ),
    resources AS MATERIALIZED (
        SELECT p.session_id, p.role, p.kernel_id, p.execution -> 'resource_input' AS input, coalesce(
                   nullif(p.execution -> 'resource_input' -> 'resources', 'null'),
                   nullif(p.execution -> 'resources', 'null')) AS list
        FROM spec AS p
        WHERE p.in_options AND NOT EXISTS (SELECT FROM allocation AS a WHERE a.kernel_id = p.kernel_id)
    ),
    slot AS MATERIALIZED (
        SELECT p.session_id, p.role, p.kernel_id, a.slot_name, a.requested AS quantity,
               CASE WHEN a.requested = 'NaN' THEN 'the allocation is not a number'
                    WHEN a.requested < 0 THEN 'the allocation is negative' END AS reason,
               a.slot_name || '=' || a.requested AS raw
        FROM spec AS p
        JOIN allocation AS a ON a.kernel_id = p.kernel_id
        UNION ALL
        SELECT listed.session_id, listed.role, listed.kernel_id, t.slot_name, listed.quantity,
               CASE WHEN listed.name IS NULL THEN 'the entry has no resource_type'
                    WHEN listed.later THEN 'the slot is listed again later'
                    WHEN t.slot_name IS NULL THEN 'the slot is not registered'
                    WHEN listed.quantity IS NULL THEN 'the quantity is unreadable' END,
               listed.entry #>> '{{}}'
        FROM (
            SELECT r.session_id, r.role, r.kernel_id, e.entry, named.name,
                   lead(true, 1, false) OVER (PARTITION BY r.kernel_id, named.name ORDER BY e.place) AS later,
                   CASE WHEN {_text_quantity("e.entry -> 'quantity'")}
                        THEN {slot_quantity_sql("(e.entry ->> 'quantity')")} END AS quantity
            FROM resources AS r
            CROSS JOIN LATERAL jsonb_array_elements(CASE WHEN jsonb_typeof(r.list) = 'array' THEN r.list END)
                WITH ORDINALITY AS e (entry, place)
            CROSS JOIN LATERAL (
                SELECT CASE WHEN jsonb_typeof(e.entry -> 'resource_type') = 'string'
                            THEN e.entry ->> 'resource_type' END
            ) AS named (name)
        ) AS listed
        LEFT JOIN resource_slot_types AS t ON t.slot_name = listed.name
    ),
    variable AS MATERIALIZED (
        SELECT v.session_id, v.role, v.kernel_id, v.place, v.key, v.value, v.raw,
               CASE WHEN v.raw IS NULL THEN 'the entry is NULL'
                    WHEN v.key IS NULL THEN 'the entry has no ='
                    WHEN NOT ({_VALID_KEY}) THEN 'the key is not a valid name' END AS reason
        FROM (
            SELECT p.session_id, p.role, p.kernel_id, l.place, l.entry AS raw,
                   CASE WHEN strpos(l.entry, '=') > 0 THEN left(l.entry, strpos(l.entry, '=') - 1) END AS key,
                   substr(l.entry, strpos(l.entry, '=') + 1) AS value
            FROM spec AS p
            CROSS JOIN LATERAL unnest(p.environ_list) WITH ORDINALITY AS l (entry, place)
            WHERE p.from_list
            UNION ALL
            SELECT p.session_id, p.role, p.kernel_id, 1, o.key || '=' || said.value, o.key, said.value
            FROM spec AS p
            CROSS JOIN LATERAL jsonb_each(
                CASE WHEN jsonb_typeof(p.environ_object) = 'object' THEN p.environ_object END) AS o
            CROSS JOIN LATERAL (
                SELECT CASE jsonb_typeof(o.value) WHEN 'null' THEN 'None'
                            WHEN 'boolean' THEN initcap(o.value #>> '{{}}') ELSE o.value #>> '{{}}' END AS value
            ) AS said
            WHERE NOT p.from_list AND NOT p.holds_groups
        ) AS v
    ),
    reject AS MATERIALIZED (
        SELECT session_id, role, kernel_id, 'resource_opts' AS field, 'it is no JSON object' AS reason,
               resource_opts #>> '{{}}' AS raw
        FROM spec WHERE jsonb_typeof(resource_opts) NOT IN ('object', 'null')
        UNION ALL
        SELECT session_id, role, kernel_id, 'shmem', 'it is not a size in bytes', shmem #>> '{{}}'
        FROM spec WHERE shmem_bytes IS NULL AND {_present("shmem")}
        UNION ALL
        SELECT session_id, role, kernel_id, 'requested_starts_at', 'it is not an ISO 8601 timestamp',
               raw_starts_at #>> '{{}}'
        FROM spec WHERE in_options AND requested_starts_at IS NULL AND {_present("raw_starts_at")}
        UNION ALL
        SELECT session_id, role, kernel_id, 'batch_timeout_sec', 'it is not a whole number of seconds, 0 or more',
               raw_timeout #>> '{{}}'
        FROM spec WHERE in_options AND batch_timeout_sec IS NULL AND {_present("raw_timeout")}
        UNION ALL
        SELECT session_id, role, kernel_id, 'options', 'execution_spec is no JSON object', execution #>> '{{}}'
        FROM spec WHERE jsonb_typeof(execution) NOT IN ('object', 'null')
        UNION ALL
        SELECT session_id, role, kernel_id, 'slots', 'resource_input is no JSON object', input #>> '{{}}'
        FROM resources WHERE jsonb_typeof(input) NOT IN ('object', 'null')
        UNION ALL
        SELECT session_id, role, kernel_id, 'slots', 'resources is no JSON array', list #>> '{{}}'
        FROM resources WHERE jsonb_typeof(list) <> 'array'
        UNION ALL
        SELECT session_id, role, kernel_id, 'slots', reason, raw FROM slot WHERE reason IS NOT NULL
        UNION ALL
        SELECT session_id, role, kernel_id, 'environ', reason, raw FROM variable WHERE reason IS NOT NULL
        UNION ALL
        SELECT DISTINCT session_id, NULL, NULL::uuid, 'environ', 'the session''s environ is no JSON object',
               environ_object #>> '{{}}'
        FROM spec
        WHERE NOT from_list AND NOT holds_groups AND jsonb_typeof(environ_object) NOT IN ('object', 'null')
        UNION ALL
        SELECT session_id, NULL, NULL, 'options', 'it is no JSON object', bad_options #>> '{{}}'
        FROM session WHERE bad_options IS NOT NULL
        UNION ALL
        SELECT session_id, NULL, NULL, 'options', 'kernel_groups is no JSON array', groups #>> '{{}}'
        FROM session WHERE jsonb_typeof(groups) NOT IN ('array', 'null')
        UNION ALL
        SELECT session_id, NULL, NULL, 'options',
               CASE WHEN role IS NULL THEN 'the entry has no role' ELSE 'the role is listed already' END,
               entry #>> '{{}}'
        FROM entry WHERE role IS NULL OR turn > 1
    ),
    {_DIVERGENT}"""


def _environ_map(alias: str) -> str:
    """SQL expression: the usable variables of the kernel `alias` as one jsonb object; a later duplicate wins in it."""
    return f"""(
        SELECT coalesce(jsonb_object_agg(key, value ORDER BY place), '{{}}')
        FROM (
            SELECT left(l.entry, strpos(l.entry, '=') - 1) AS key, substr(l.entry, strpos(l.entry, '=') + 1) AS value,
                   l.place
            FROM unnest({alias}.environ) WITH ORDINALITY AS l (entry, place)
            WHERE strpos(l.entry, '=') > 0
        ) AS parsed
        WHERE {_VALID_KEY}
    )"""


def _shmem_bytes(alias: str) -> str:
    json = f"({alias}.resource_opts -> 'shmem')"
    return f"CASE WHEN {_text_quantity(json)} THEN {byte_size_sql(f'({json} #>> {_ROOT})')} END"


_ROOT = "'{}'"

# Each other kernel of a role against the representative. Values are parsed only where they differ as they are.
_DIVERGENT: Final = f"""pair AS MATERIALIZED (
        SELECT r.session_id, r.role, r.kernel_id AS first_id, m.kernel_id AS other_id,
               r.image_id IS DISTINCT FROM m.image_id AS image,
               r.startup_command IS DISTINCT FROM m.startup_command AS startup_command,
               r.preopen_ports <> m.preopen_ports AS ports,
               CASE WHEN r.environ IS DISTINCT FROM m.environ
                    THEN {_environ_map("r")} <> {_environ_map("m")} ELSE false END AS environ,
               CASE WHEN r.resource_opts -> 'shmem' IS DISTINCT FROM m.resource_opts -> 'shmem'
                    THEN {_shmem_bytes("r")} IS DISTINCT FROM {_shmem_bytes("m")} ELSE false END AS shmem
        FROM representative AS r
        JOIN member AS m ON m.session_id = r.session_id AND m.role = r.role AND m.kernel_id <> r.kernel_id
    ),
    held AS MATERIALIZED (
        SELECT kernel_id, jsonb_object_agg(slot_name, requested::text) AS slots
        FROM allocation
        WHERE requested <> 0
          AND kernel_id IN (SELECT first_id FROM pair UNION ALL SELECT other_id FROM pair)
        GROUP BY kernel_id
    ),
    divergent AS MATERIALIZED (
        SELECT session_id, role, array_to_string(ARRAY[
                   CASE WHEN bool_or(image) THEN 'image' END,
                   CASE WHEN bool_or(startup_command) THEN 'startup command' END,
                   CASE WHEN bool_or(ports) THEN 'ports' END,
                   CASE WHEN bool_or(environ) THEN 'environ' END,
                   CASE WHEN bool_or(shmem) THEN 'shmem' END,
                   CASE WHEN bool_or(slots) THEN 'slots' END], ', ') AS fields
        FROM (
            SELECT p.*, h.slots IS DISTINCT FROM o.slots AS slots
            FROM pair AS p
            LEFT JOIN held AS h ON h.kernel_id = p.first_id
            LEFT JOIN held AS o ON o.kernel_id = p.other_id
        ) AS compared
        WHERE image OR startup_command OR ports OR environ OR shmem OR slots
        GROUP BY session_id, role
    )"""
