"""Realistic legacy clusters: deterministic rows of every era, made in constant memory and written by COPY."""

from schema.seed.load import SEED_MAX, SeedReport, seed
from schema.seed.profile import Profile

__all__ = ["SEED_MAX", "Profile", "SeedReport", "seed"]
