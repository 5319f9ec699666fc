"""How much disk the server has left, as far as that can be known from here."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import Connection

from schema.backfill.job import Row


@dataclass(frozen=True)
class FreeSpace:
    """Free space of the server's data folder."""

    bytes: int | None
    """None when it can't be known."""
    text: str
    """The same for people, with what to do when it can't be known."""


def free_space(connection: Connection[Row]) -> FreeSpace:
    """Look at the disk when the server runs on this machine; no SQL tells it otherwise.

    Tablespaces and a pg_wal of its own are elsewhere, and not looked at.
    """
    folder = None
    try:
        with connection.transaction():
            row = connection.execute("SELECT current_setting('data_directory', true)").fetchone()
        folder = row[0] if row is not None else None
    except psycopg.errors.InsufficientPrivilege:
        pass
    host = connection.info.host
    if folder and (host.startswith("/") or host in ("localhost", "127.0.0.1", "::1")) and Path(folder).is_dir():
        free = shutil.disk_usage(folder).free
        return FreeSpace(free, f"The server's data folder has {free / 1024**2:,.1f} MiB free.")
    where = f" ({folder})" if folder else ""
    return FreeSpace(
        None, f"Free space cannot be known from here: look with `df` at the server's data folder{where} and its pg_wal."
    )
