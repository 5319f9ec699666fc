"""Data that a revision cannot write: jobs say what, the engine how, the ledger how far."""
