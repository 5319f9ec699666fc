"""The backfill jobs, one module each."""
