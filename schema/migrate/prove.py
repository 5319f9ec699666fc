"""Proof on a scratch server that every way to the head of a changed history ends in the same schema."""

import difflib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic.script import ScriptDirectory

from schema.errors import ServerError
from schema.migrate.project import Project, alembic_config
from schema.migrate.runner import Options, upgrade
from schema.pg.scratch import ScratchServer
from schema.pg.target import Target

EMPTY = "empty"


@dataclass(frozen=True)
class Proof:
    """One way to the head, and how its schema differs from the one made from empty."""

    way: str
    differences: tuple[str, ...]
    """Lines of a unified diff of what pg_dump says; none is what is wanted."""


def prove(
    ini: Path, files: Mapping[str, bytes], releases: Mapping[str, Mapping[str, bytes]], *, pg_bindir: Path | None = None
) -> list[Proof]:
    """Bring databases of each release, made by its own files, to the head of `files`, and compare with one from empty.

    The project's env.py runs, and so do the revisions; nothing outside of a scratch server and a temporary folder is
    touched.

    Raises:
        RevisionError: a way does not come to its end.
        ServerError: there is no scratch server or no pg_dump.
    """
    with tempfile.TemporaryDirectory(prefix="schemactl-proof-") as folder, ScratchServer(pg_bindir) as server:
        after = _project(ini, Path(folder) / "after", files)
        wanted = _schema(server, _upgraded(server, EMPTY, [after]))
        proofs: list[Proof] = []
        for name, contents in releases.items():
            before = _project(ini, Path(folder) / f"before-{len(proofs)}", contents)
            found = _schema(server, _upgraded(server, name, [before, after]))
            lines = difflib.unified_diff(wanted, found, f"{EMPTY} to head", f"{name} to head", lineterm="", n=1)
            proofs.append(Proof(name, tuple(lines)))
        return proofs


def _project(ini: Path, folder: Path, files: Mapping[str, bytes]) -> Project:
    """The project with other revision files."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    config = alembic_config(ini)
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", str(folder).replace("%", "%%"))
    return Project(ini, config, ScriptDirectory.from_config(config))


def _upgraded(server: ScratchServer, name: str, projects: Sequence[Project]) -> str:
    url = server.create_database()
    for project in projects:
        upgrade(project, Target.parse(url, f"the proof from {name}"), "head", options=Options(yes=True))
    return url


def _schema(server: ScratchServer, url: str) -> list[str]:
    program = server.installation.client("pg_dump")
    plain = Target.parse(url, "the proof").url.set(drivername="postgresql").render_as_string(hide_password=False)
    done = subprocess.run([str(program), "--schema-only", "-d", plain], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"pg_dump failed: {done.stderr.strip()}")
    # Comments, and the random key of \restrict.
    return [line for line in done.stdout.splitlines() if line and not line.startswith(("--", "\\"))]
