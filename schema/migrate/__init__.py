"""Alembic projects: where they are, what their databases lack, and how a run goes safely."""
