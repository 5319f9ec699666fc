"""Writes of the application: deployment revisions, and sessions from enqueue to purge. The caller commits."""
