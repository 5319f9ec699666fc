"""Backfills in processes of their own, which can be killed and frozen; quick to start, as modules are loaded once."""

import multiprocessing
import os
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.process import BaseProcess
from typing import Any

import psycopg

from schema.backfill.jobs.kernel_groups import KernelGroups
from schema.backfill.throttle.monitor import LIMITS, Monitor

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["schema.backfill.engine", "schema.backfill.jobs.kernel_groups", "psycopg"])


def conninfo(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


def start(url: str, **settings: Any) -> BaseProcess:
    """Start a backfill; `settings` are of `Settings`, without rests unless said otherwise."""
    process = _CONTEXT.Process(target=_run, args=(url, settings), daemon=True)
    process.start()
    return process


def _run(url: str, settings: dict[str, Any]) -> None:
    from schema.backfill import engine
    from schema.backfill.settings import Settings

    def connect() -> psycopg.Connection:
        return psycopg.connect(conninfo(url), autocommit=True, prepare_threshold=None, application_name="backfill")

    outcome = engine.run(
        connect, KernelGroups(), Settings(**{"duty": 1.0, "older_wait": timedelta(seconds=5), **settings})
    )
    os._exit(0 if outcome.end == "complete" else 1)


def until(condition: Callable[[], Any], seconds: float = 30, pause: float = 0.005) -> Any:
    """Wait for a condition, and return what it gives."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(pause)
    return found


def only(name: str, limit: float | None = None) -> dict[str, float | None]:
    """Limits that leave one throttle signal, maybe with a limit of its own."""
    return {**dict.fromkeys(LIMITS), name: LIMITS[name].limit if limit is None else limit}


def holds(connection: psycopg.Connection, name: str, limit: float | None = None) -> list[str]:
    """What one signal says when it holds a backfill."""
    return [str(hold) for hold in Monitor(KernelGroups(), only(name, limit)).poll(connection)]
