"""Several files are written as one."""

import os
import stat
from pathlib import Path

import pytest

from schema.errors import SchemaError
from schema.lineage.files import Change, StaleFileError, write_all


def test_modes_and_symbolic_links_stay(tmp_path: Path) -> None:
    real, name = tmp_path / "real.py", tmp_path / "link.py"
    real.write_bytes(b"old")
    real.chmod(0o750)
    name.symlink_to(real)
    write_all([Change(name, b"old", b"new"), Change(tmp_path / "made.py", None, b"made")])
    assert name.is_symlink()
    assert (real.read_bytes(), (tmp_path / "made.py").read_bytes()) == (b"new", b"made")
    assert stat.S_IMODE(real.stat().st_mode) == 0o750
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "made.py").stat().st_mode) == 0o666 & ~mask
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.py", "made.py", "real.py"]


def test_a_name_as_long_as_a_name_may_be(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 252}.py"
    write_all([Change(path, None, b"1")])
    write_all([Change(path, b"1", b"2")])
    assert path.read_bytes() == b"2"


def test_a_stale_plan_writes_nothing(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"changed")
    with pytest.raises(StaleFileError, match="two was changed by somebody else"):
        write_all([Change(one, b"1", b"new"), Change(two, b"2", b"new")])
    with pytest.raises(StaleFileError, match="two was changed by somebody else"):
        write_all([Change(one, b"1", b"new"), Change(two, None, b"new")])
    assert (one.read_bytes(), two.read_bytes()) == (b"1", b"changed")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failure_between_two_renames_takes_back_the_first(tmp_path: Path) -> None:
    one, made = tmp_path / "one", tmp_path / "made"
    one.write_bytes(b"1")
    # The second change of the same file is stale only once the first is written.
    with pytest.raises(StaleFileError):
        write_all([Change(made, None, b"made"), Change(one, b"1", b"2"), Change(one, b"1", b"3")])
    assert one.read_bytes() == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_folders_are_made_and_taken_back(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_bytes(b"1")
    with pytest.raises(SchemaError, match="cannot be written: Not a directory"):
        write_all([Change(tmp_path / "new" / "er" / "x", None, b"x"), Change(one / "two", None, b"2")])
    assert one.read_bytes() == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    write_all([Change(tmp_path / "new" / "er" / "x", None, b"x")])
    assert (tmp_path / "new" / "er" / "x").read_bytes() == b"x"
