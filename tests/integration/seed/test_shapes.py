"""The shapes that a seeded cluster has, counted in SQL."""

import psycopg
from psycopg.rows import dict_row

from schema.models.status import TERMINAL_SESSION_STATUSES
from schema.quantity import byte_size_sql, slot_quantity_sql
from schema.seed import Profile, seed
from tests.support.majors import embedded_only

SESSIONS = 20_000
"""Each of the twenty mistakes has one turn in as many thousands."""

GROUPS = """
    jsonb_array_elements(CASE WHEN jsonb_typeof(s.options->'kernel_groups') = 'array'
                              THEN s.options->'kernel_groups' ELSE '[]' END)"""

SHAPES = {
    "environ on the kernel only": """
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id
        WHERE cardinality(k.environ) > 0 AND coalesce(s.environ, '{}') = '{}'""",
    "environ on the session only": """
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id
        WHERE k.environ = '{}' AND s.environ <> '{}' AND s.options = '{"kernel_groups": []}'""",
    "the session holds more than the kernel": """
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id
        WHERE cardinality(k.environ) > 0
          AND (SELECT count(*) FROM jsonb_object_keys(s.environ)) > cardinality(k.environ)""",
    "no list and no object": """
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id
        WHERE k.environ IS NULL AND s.environ IS NULL""",
    "session environ of every JSON kind": """
        SELECT min(number) FROM (
            SELECT count(*) FILTER (WHERE kind = wanted) AS number
            FROM unnest('{string,number,boolean,"null",object}'::text[]) AS wanted,
                 (SELECT jsonb_typeof(value) AS kind FROM sessions, jsonb_each(environ)) AS found
            GROUP BY wanted) AS numbers""",
    "a list with one key twice": """
        SELECT count(*) FROM kernels k
        WHERE (SELECT count(*) - count(DISTINCT split_part(e, '=', 1)) FROM unnest(environ) AS e) > 0""",
    "a value with = and newline": "SELECT count(*) FROM kernels, unnest(environ) AS e WHERE e LIKE E'%=%\\n%=%'",
    "nested options": f"SELECT count(*) FROM sessions s, {GROUPS} g WHERE g->'execution_spec' ? 'resource_input'",
    "flat options": f"SELECT count(*) FROM sessions s, {GROUPS} g WHERE g->'execution_spec' ? 'resources'",
    "options and an empty list": f"""
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id
        WHERE k.environ = '{{}}' AND s.environ <> '{{}}'
          AND EXISTS (SELECT FROM {GROUPS} g WHERE g->>'role' = k.cluster_role)""",
    "options without a role that has kernels": f"""
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id
        WHERE EXISTS (SELECT FROM {GROUPS} g)
          AND NOT EXISTS (SELECT FROM {GROUPS} g WHERE g->>'role' = k.cluster_role)""",
    "options with a role that has no kernel": f"""
        SELECT count(*) FROM sessions s, {GROUPS} g
        WHERE EXISTS (SELECT FROM kernels k WHERE k.session_id = s.id)
          AND NOT EXISTS (SELECT FROM kernels k WHERE k.session_id = s.id AND k.cluster_role = g->>'role')""",
    "empty options": "SELECT count(*) FROM sessions WHERE options = '{}'",
    "start only in the options": f"""
        SELECT count(*) FROM sessions s, {GROUPS} g
        WHERE g->'execution_spec'->>'starts_at' IS NOT NULL AND s.requested_starts_at IS NULL""",
    "start with another offset": f"""
        SELECT count(*) FROM sessions s, {GROUPS} g WHERE g->'execution_spec'->>'starts_at' LIKE '%+09:00'""",
    "timeout": "SELECT count(*) FROM sessions WHERE batch_timeout > 0",
    "no resource_opts": "SELECT count(*) FROM kernels WHERE resource_opts IS NULL",
    "resource_opts without shmem": "SELECT count(*) FROM kernels WHERE NOT resource_opts ? 'shmem'",
    "shmem null": "SELECT count(*) FROM kernels WHERE resource_opts->'shmem' = 'null'",
    "shmem 0": "SELECT count(*) FROM kernels WHERE resource_opts->'shmem' = '0'",
    "shmem a number": "SELECT count(*) FROM kernels WHERE resource_opts->'shmem' = '67108864'",
    "no start-up command": "SELECT count(*) FROM kernels WHERE startup_command IS NULL",
    "an empty start-up command": "SELECT count(*) FROM kernels WHERE startup_command = ''",
    "ports in an order": "SELECT count(*) FROM kernels WHERE preopen_ports = '{9090,3000,6006}'",
    "ports NULL": "SELECT count(*) FROM kernels WHERE preopen_ports IS NULL",
    "replicas of a role": "SELECT count(*) FROM kernels WHERE cluster_role <> 'main' AND cluster_idx > 1",
    "many mains": "SELECT count(*) FROM kernels WHERE cluster_role = 'main' AND cluster_idx > 1",
    "replicas that index and rank don't tell apart": """
        SELECT count(*) FROM (SELECT FROM kernels GROUP BY session_id, cluster_role, cluster_idx, local_rank
                              HAVING count(*) > 1) AS equal""",
    "cancelled without kernels": """
        SELECT count(*) FROM sessions s
        WHERE status = 'CANCELLED' AND NOT EXISTS (SELECT FROM kernels k WHERE k.session_id = s.id)""",
    "unrecorded creation": """
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id
        WHERE s.created_at IS NULL AND k.created_at IS NULL""",
    "unknown image": "SELECT count(*) FROM kernels WHERE image_id IS NULL AND image IS NOT NULL",
    "freed allocation": "SELECT count(*) FROM resource_allocations WHERE free_at IS NOT NULL",
    "allocation in use": "SELECT count(*) FROM resource_allocations WHERE free_at IS NULL AND used IS NOT NULL",
    "zero slot": "SELECT count(*) FROM resource_allocations WHERE requested = 0",
    "fractional slot": "SELECT count(*) FROM resource_allocations WHERE requested = 0.25",
    "no allocation but options": f"""
        SELECT count(*) FROM sessions s JOIN kernels k ON k.session_id = s.id, {GROUPS} g
        WHERE g->>'role' = k.cluster_role
          AND NOT EXISTS (SELECT FROM resource_allocations a WHERE a.kernel_id = k.id)""",
    "quantity with a unit": f"SELECT count(*) FROM sessions s, {GROUPS} g WHERE g::text LIKE '%\"quantity\": \"4g\"%'",
    "random ids": "SELECT count(*) FROM sessions WHERE substr(id::text, 15, 1) = '4'",
    "time-ordered ids": "SELECT count(*) FROM kernels WHERE substr(id::text, 15, 1) = '7'",
    "a script": "SELECT count(*) FROM kernels WHERE bootstrap_script LIKE E'#!/bin/sh\\n%'",
    "statistics of 1 kB": "SELECT count(*) FROM kernels WHERE octet_length(last_stat::text) > 900",
    "a long status_info": "SELECT count(*) FROM sessions WHERE octet_length(status_info) > 900",
    "a user who is gone": """
        SELECT count(*) FROM sessions s WHERE NOT EXISTS (SELECT FROM users u WHERE u.uuid = s.user_uuid)""",
    "a dependency": "SELECT count(*) FROM session_dependencies",
    "a routing": "SELECT count(*) FROM routings",
    **{f"status {status}": f"SELECT count(*) FROM sessions WHERE status = '{status}'"
       for status in ("PENDING", "RUNNING", "TERMINATED", "ERROR", "CANCELLED")},
    **{f"shmem {text!r}": f"SELECT count(*) FROM kernels WHERE resource_opts->>'shmem' = '{text}'"
       for text in ("64m", "64MB", "1.5 GiB", "536_870_912", "67108864.0", "100 bytes", " 128m", "256M ", "0.5g")},
}  # fmt: skip

BAD = f"""
    SELECT s.id FROM sessions s JOIN kernels k ON k.session_id = s.id
    WHERE EXISTS (SELECT FROM unnest(k.environ) AS e
                  WHERE e IS NULL OR e !~ '^[A-Za-z_][A-Za-z0-9_]*=' OR strpos(e, '=') > 257)
       OR EXISTS (SELECT FROM jsonb_object_keys(s.environ) AS key WHERE key !~ '^[A-Za-z_][A-Za-z0-9_]*$')
       OR (k.resource_opts->>'shmem' IS NOT NULL AND {byte_size_sql("(k.resource_opts->>'shmem')")} IS NULL)
       OR EXISTS (SELECT FROM resource_allocations a WHERE a.kernel_id = k.id AND NOT a.requested < 'NaN')
       OR (s.options ? 'kernel_groups' AND jsonb_typeof(s.options->'kernel_groups') <> 'array')
       OR EXISTS (
            SELECT FROM {GROUPS} g
            WHERE jsonb_typeof(g) <> 'object'
               OR jsonb_typeof(g->'execution_spec'->'batch_timeout_sec') NOT IN ('null', 'number')
               OR g->'execution_spec'->>'starts_at' !~ '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9:.]+(Z|[+]0[09]:00)$'
               OR EXISTS (
                    SELECT FROM jsonb_array_elements(coalesce(g->'execution_spec'->'resource_input'->'resources',
                                                              g->'execution_spec'->'resources')) AS r
                    WHERE r->>'resource_type' NOT IN (SELECT slot_name FROM resource_slot_types)
                       OR {slot_quantity_sql("(r->>'quantity')")} IS NULL))
    GROUP BY s.id"""
"""Sessions with something that the backfill cannot carry over."""

DIVERGENT = f"""
    SELECT session_id, cluster_role FROM (
        SELECT k.*, (SELECT jsonb_object_agg(slot_name, requested) FROM resource_allocations a
                     WHERE a.kernel_id = k.id) AS slots
        FROM kernels k WHERE session_id NOT IN ({BAD})) AS k
    GROUP BY session_id, cluster_role
    HAVING count(DISTINCT (image_id, startup_command, preopen_ports, environ, resource_opts, slots)) > 1"""


def count(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


@embedded_only
def test_eras_have_every_shape_and_one_mistake_in_a_thousand(connection: psycopg.Connection) -> None:
    report = seed(connection, sessions=SESSIONS, seed=3)
    assert [name for name, query in SHAPES.items() if count(connection, query) == 0] == []
    assert count(connection, f"SELECT count(*) FROM ({BAD}) AS bad") == SESSIONS // 1000
    # Three in a thousand, of which a few fall on the same session; each of the six kinds is ten of them.
    assert 55 <= count(connection, f"SELECT count(*) FROM ({DIVERGENT}) AS divergent") <= 60
    assert report.rows["sessions"] == SESSIONS == count(connection, "SELECT count(*) FROM sessions")
    assert 1.35 < report.rows["kernels"] / SESSIONS < 1.45
    terminal = [status.value for status in TERMINAL_SESSION_STATUSES]
    live = connection.execute("SELECT count(*) FROM sessions WHERE status <> ALL (%s)", [terminal]).fetchone()
    assert live is not None
    assert 0.02 < live[0] / SESSIONS < 0.05
    assert count(connection, "SELECT count(*) FROM kernels WHERE kernel_group_id IS NOT NULL") == 0


@embedded_only
def test_clean_has_the_shapes_without_the_mistakes(connection: psycopg.Connection) -> None:
    seed(connection, sessions=SESSIONS // 2, seed=3, profile=Profile.CLEAN)
    assert [name for name, query in SHAPES.items() if count(connection, query) == 0] == []
    assert count(connection, f"SELECT count(*) FROM ({BAD}) AS bad") == 0
    assert count(connection, f"SELECT count(*) FROM ({DIVERGENT}) AS d") == 0


@embedded_only
def test_times_are_in_order(connection: psycopg.Connection) -> None:
    seed(connection, sessions=5000)
    connection.row_factory = dict_row
    assert connection.execute(
        """
        SELECT count(*) FILTER (WHERE starts_at < created_at) AS started_too_soon,
               count(*) FILTER (WHERE terminated_at < coalesce(starts_at, created_at)) AS ended_too_soon,
               count(*) FILTER (WHERE (terminated_at IS NULL) <> (status NOT IN ('ERROR', 'TERMINATED', 'CANCELLED')))
                   AS ended_but_live,
               max(greatest(created_at, starts_at, terminated_at)) <= '2026-10-01Z' AS within,
               min(created_at) BETWEEN '2023-10-01Z' AND '2023-10-15Z' AS over_three_years
        FROM sessions"""
    ).fetchone() == {
        "started_too_soon": 0, "ended_too_soon": 0, "ended_but_live": 0, "within": True, "over_three_years": True
    }  # fmt: skip
    ordered = connection.execute(
        """
        SELECT count(*) AS number, count(*) FILTER (WHERE id < before) AS out_of_order
        FROM (SELECT id, lag(id) OVER (ORDER BY created_at) AS before FROM sessions
              WHERE substr(id::text, 15, 1) = '7') AS pairs"""
    ).fetchone()
    assert ordered == {"number": 2500, "out_of_order": 0}
