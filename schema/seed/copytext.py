"""COPY's text format: how rows are spelled for it, and which columns the seed fills.

Building the text by hand is what makes the seed fast: the pools below it are escaped once, rows only join them.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

NULL: Final = "\\N"

COLUMNS: Final = {
    "domains": ("name", "id"),
    "groups": ("id", "name", "domain_name"),
    "users": ("uuid", "email", "username", "domain_name"),
    "scaling_groups": ("name", "id"),
    "agents": ("id", "status", "scaling_group", "architecture", "addr"),
    "images": ("id", "registry", "project", "name", "tag", "architecture"),
    "resource_slot_types": ("slot_name", "slot_type", "display_name", "rank"),
    "storage_volumes": ("id", "name", "host", "backend", "deleted_at"),
    "system_session_environ": ("key", "value", "created_at", "updated_at"),
    "endpoints": (
        *("id", "name", "domain_name", "group_id", "session_owner", "scaling_group_name", "replicas", "url"),
        *("lifecycle_stage", "created_at"),
    ),
    "sessions": (
        *("id", "name", "session_type", "status", "status_info", "cluster_mode", "cluster_size", "priority"),
        *("domain_name", "group_id", "user_uuid", "access_key", "scaling_group_name", "environ", "options"),
        *("bootstrap_script", "startup_command", "requested_starts_at", "starts_at", "batch_timeout"),
        *("terminated_at", "created_at", "result"),
    ),
    "kernels": (
        *("id", "session_id", "session_name", "session_type", "cluster_mode", "cluster_size", "cluster_role"),
        *("cluster_idx", "local_rank", "cluster_hostname", "scaling_group", "agent", "domain_name", "group_id"),
        *("user_uuid", "access_key", "image", "image_id", "architecture", "registry", "tag", "container_id"),
        *("environ", "resource_opts", "preopen_ports", "startup_command", "bootstrap_script", "starts_at"),
        *("terminated_at", "status", "status_changed", "created_at", "result", "last_stat"),
    ),
    "resource_allocations": ("kernel_id", "slot_name", "id", "requested", "used", "free_at"),
    "session_dependencies": ("session_id", "depends_on"),
    "routings": ("id", "endpoint_id", "session_id", "status", "traffic_ratio", "created_at"),
}
"""Every table that the seed writes, parents before children, and its columns in the order of the rows."""

BLOCK_TABLES: Final = ("sessions", "kernels", "resource_allocations", "session_dependencies", "routings")
"""Those that every block of sessions adds to, in the order of writing."""


def escape(text: str) -> str:
    """Spell text as a COPY field. Escaped texts may be joined to a longer one."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def json_field(value: Any) -> str:
    """Spell a value as a jsonb field."""
    return escape(json.dumps(value))


def array_field(elements: Iterable[str | None]) -> str:
    """Spell strings as a varchar[] field."""
    return escape("{" + ",".join(_element(element) for element in elements) + "}")


def _element(element: str | None) -> str:
    if element is None:
        return "NULL"
    return '"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"'
