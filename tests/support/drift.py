"""The twelve-table schema that the drift cases change, and copies of databases."""

import importlib.util
import sys
import uuid
from pathlib import Path
from types import ModuleType

import psycopg
import sqlalchemy as sa
from psycopg import sql

DATA = Path(__file__).parents[1] / "data" / "drift"
ROLES = ("app_ro", "app_rw", "other_owner")


def baseline_models() -> ModuleType:
    if "drift_baseline_models" not in sys.modules:
        spec = importlib.util.spec_from_file_location("drift_baseline_models", DATA / "baseline_models.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["drift_baseline_models"] = module
        spec.loader.exec_module(module)
    return sys.modules["drift_baseline_models"]


def admin(url: str) -> psycopg.Connection:
    parts = sa.make_url(url).set(database="postgres")
    return psycopg.connect(parts.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True)


def plain(url: str) -> str:
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def clone(url: str, template: str) -> str:
    """A fresh copy of a database; returns its URL."""
    name = f"drift_{uuid.uuid4().hex[:12]}"
    with admin(url) as server:
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
    return sa.make_url(url).set(database=name).render_as_string(hide_password=False)


def drop(url: str) -> None:
    with admin(url) as server:
        name = sql.Identifier(str(sa.make_url(url).database))
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
