"""The database package of a GPU-cluster manager: its PostgreSQL schema, its history and what people do to it."""

DISTRIBUTION = "schemactl"
"""Name of the distribution this package comes from; another project's `schema` does not have it."""
