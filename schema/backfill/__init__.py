"""Data that a revision cannot write: jobs say what, the engine how, the ledger how far."""

from schema.backfill.report import Progress, progress

__all__ = ["Progress", "progress"]
