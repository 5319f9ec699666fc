"""The wheel, installed into an environment of its own, works from any folder."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.majors import embedded_only

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert isinstance(done, subprocess.CompletedProcess)
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    built = run(
        sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", target, ROOT
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (path,) = target.glob("schemactl-*.whl")
    return path


def test_it_holds_the_package_the_revisions_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not re.fullmatch(r"schemactl-.*\.(dist-info|data)", top)} == {"schema"}
    carried = {Path(name).name for name in names if name.startswith("schema/_project/migrations/versions/")}
    own = {path.name for path in (ROOT / "migrations/versions").glob("*.py")}
    assert own
    assert carried == own
    assert "schema/_project/alembic.ini" in names
    assert "schema/py.typed" in names
    assert {f"schema/review/page/report.{kind}" for kind in ("html", "css", "js")} <= set(names)


@embedded_only
def test_upgrade_seed_backfill_and_status_from_any_folder(wheel: Path, tmp_path: Path, empty_database: str) -> None:
    # With a blank: no interpreter behind `#!` would be found there.
    home = tmp_path / "an environment"
    venv.create(home, with_pip=True, symlinks=True)
    installed = run(
        home / "bin/python", "-m", "pip", "install", "-qq", "--disable-pip-version-check",
        "-c", _constraints(tmp_path), wheel,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    folder = tmp_path / "anywhere"
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SCHEMACTL_URL": empty_database}

    def schemactl(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run(home / "bin/schemactl", *arguments, cwd=folder, env=environment)

    upgraded = schemactl("upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    assert schemactl("seed", "--sessions", "200", "--profile", "clean").returncode == 0
    backfilled = schemactl("backfill")
    assert backfilled.returncode == 0, backfilled.stderr
    status = schemactl("--format", "json", "status")
    assert status.returncode == 0, status.stderr
    assert '"pending": []' in status.stdout
    assert list(folder.iterdir()) == []


def _constraints(folder: Path) -> Path:
    """The lock without its hashes: pip applies hashes to every package or to none, and the wheel has none."""
    path = folder / "constraints.txt"
    pins = re.findall(r"^(\S+==\S+(?: ; .*?)?)(?: \\)?$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    path.write_text("\n".join(pins) + "\n")
    return path
