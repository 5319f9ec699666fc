"""Alembic's environment: the models, and the settings of a safe run."""

from schema.migrate.settings import run_environment
from schema.models import metadata

run_environment(metadata)
