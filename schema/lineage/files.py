"""Writing several files as one: all are changed, or none is."""

import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schema.errors import SchemaError


class StaleFileError(SchemaError):
    """A file changed between planning and writing."""

    default_hint = "Nothing was written. Run the command again."


@dataclass(frozen=True)
class Change:
    """One file's bytes before and after; None before means that the file must not exist yet."""

    path: Path
    before: bytes | None
    after: bytes


def write_all(changes: Sequence[Change]) -> None:
    """Write every change or none: new bytes go to files beside the old ones first, then are renamed over them.

    A file's mode is kept, a symbolic link stays one, and a new file's folder is made.

    Raises:
        StaleFileError: a file is not what the plan saw.
        SchemaError: a file could not be written; those already renamed are back to what they were.
    """
    folders: list[Path] = []
    prepared: list[tuple[Change, Path, Path]] = []
    done: list[tuple[Change, Path]] = []
    try:
        for change in changes:
            target = Path(os.path.realpath(change.path))
            _compare(change, target)
            _make_folders(target.parent, folders)
            prepared.append((change, target, _beside(target, change.after)))
        for change, target, temporary in prepared:
            _compare(change, target)
            if change.before is None:
                # A link fails when somebody made the file meanwhile; a rename would replace it.
                os.link(temporary, target)
            else:
                temporary.replace(target)
            done.append((change, target))
    except BaseException as error:
        _undo(done, [temporary for _, _, temporary in prepared], folders)
        if isinstance(error, OSError):
            raise SchemaError(
                f"{error.filename} cannot be written: {error.strerror}", hint="Nothing was changed."
            ) from error
        raise
    for _, _, temporary in prepared:
        temporary.unlink(missing_ok=True)


def _make_folders(folder: Path, made: list[Path]) -> None:
    if not folder.exists():
        _make_folders(folder.parent, made)
        folder.mkdir()
        made.append(folder)


def _compare(change: Change, target: Path) -> None:
    if (target.read_bytes() if target.exists() else None) != change.before:
        raise StaleFileError(f"{change.path} was changed by somebody else")


def _beside(target: Path, data: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix=".schemactl-", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _umask() -> int:
    # The only way to read it is to set it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _undo(done: list[tuple[Change, Path]], temporaries: list[Path], folders: list[Path]) -> None:
    for temporary in temporaries:
        temporary.unlink(missing_ok=True)
    for change, target in reversed(done):
        if change.before is None:
            target.unlink()
        else:
            _beside(target, change.before).replace(target)
    for folder in reversed(folders):
        folder.rmdir()
