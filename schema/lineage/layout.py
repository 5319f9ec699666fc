"""Where an Alembic project keeps its revision files, read from alembic.ini and pyproject.toml without Alembic."""

import os
import re
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schema.errors import ConfigError

_SEPARATORS = {"space": " ", "newline": "\n", "os": os.pathsep, ":": ":", ";": ";"}
_REVISION_FILE = re.compile(r"(?!\.#|__init__).*\.py")


@dataclass(frozen=True)
class Layout:
    """The folders and naming rules of one project."""

    config: Path
    """The file that was read."""
    script_location: Path
    version_locations: tuple[Path, ...]
    recursive: bool = False
    file_template: str = "%(rev)s_%(slug)s"
    truncate_slug_length: int = 40
    timezone: str | None = None
    chosen: bool = True
    """Whether somebody named this project or stands in it; else it is this package's own."""

    @property
    def head_file(self) -> Path:
        """The committed file that holds the one head."""
        return self.script_location / "HEAD"

    @property
    def ledger(self) -> Path:
        """The committed file of `lineage integrity`."""
        return self.script_location / "integrity.json"

    def files(self) -> list[Path]:
        """Every revision file, sorted, each once however many locations lead to it."""
        found: dict[str, Path] = {}
        for location in self.version_locations:
            for folder in self._folders(location):
                for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                    if _REVISION_FILE.fullmatch(entry.name) and entry.is_file():
                        key = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
                        found.setdefault(key, Path(entry.path))
        return list(found.values())

    def _folders(self, location: Path) -> list[str]:
        if not location.is_dir():
            return []
        root = os.path.realpath(location)
        if not self.recursive:
            return [root]
        return sorted(
            folder
            for folder, _, _ in os.walk(root, followlinks=False)
            if not any(part.endswith("__pycache__") for part in Path(folder).parts)
        )

    def covers(self, relative: str, location: str) -> bool:
        """Whether a file at `relative` is a revision of the location, both as paths of one git tree."""
        inside = relative[len(location) + 1 :] if location else relative
        if not self.recursive and "/" in inside:
            return False
        return _REVISION_FILE.fullmatch(inside.rpartition("/")[2]) is not None and "__pycache__" not in inside


def read_layout(config: Path | None = None) -> Layout:
    """Read a project's layout from `config`, or from ALEMBIC_CONFIG, ./alembic.ini or ./pyproject.toml.

    Without any of them it is this project's own history.

    Raises:
        ConfigError: no such file, a broken one, or one without script_location.
    """
    given = config or (Path(os.environ["ALEMBIC_CONFIG"]) if os.environ.get("ALEMBIC_CONFIG") else None)
    if given is not None and not given.is_file():
        raise ConfigError(f"{given} does not exist", hint="Give the project's alembic.ini with -c.")
    ini, toml = given or Path("alembic.ini"), Path("pyproject.toml")
    if ini.name == "pyproject.toml":
        ini, toml = ini.with_name("alembic.ini"), ini
    elif given is not None:
        toml = given.with_name("pyproject.toml")
    options = _Options(ini, toml)
    location = options.text("script_location")
    if not location and given is None and not ini.is_file():
        return replace(read_layout(_own_config()), chosen=False)
    if not location:
        raise ConfigError(
            f"neither {ini} nor {toml} says script_location",
            hint="Run in the project's folder, or give its alembic.ini with -c.",
        )
    root = options.source.absolute().parent
    script_location = _folder(location, root, options.paths("prepend_sys_path"))
    if not script_location.is_dir():
        raise ConfigError(f"{options.source}: script_location {location} is no folder", hint="Run in its folder.")
    versions = options.paths("version_locations")
    return Layout(
        config=options.source,
        script_location=script_location,
        version_locations=tuple(_folder(version, root, options.paths("prepend_sys_path")) for version in versions)
        or (script_location / "versions",),
        recursive=options.flag("recursive_version_locations"),
        file_template=options.text("file_template") or Layout.file_template,
        truncate_slug_length=options.number("truncate_slug_length") or Layout.truncate_slug_length,
        timezone=options.text("timezone"),
    )


def _own_config() -> Path:
    package = Path(__file__).resolve().parents[1]
    packed = package / "_project" / "alembic.ini"
    return packed if packed.is_file() else package.parent / "alembic.ini"


class _Options:
    """Alembic's options: the ini first, then the table of pyproject.toml."""

    def __init__(self, ini: Path, toml: Path) -> None:
        self._parser = ConfigParser({"here": ini.absolute().parent.as_posix()})
        self._table: dict[str, Any] = {}
        self._here = {"here": toml.absolute().parent.as_posix()}
        try:
            if ini.is_file():
                self._parser.read_string(ini.read_text(encoding="utf-8-sig"), str(ini))
            content = toml.read_bytes() if toml.is_file() else b""
        except (ConfigParserError, UnicodeDecodeError, OSError) as error:
            raise ConfigError(f"{ini} cannot be read: {error}") from error
        if b"alembic" in content:
            self._table = _toml_table(toml, content)
        self.source = ini if self._parser.has_option("alembic", "script_location") else toml

    def _ini(self, name: str) -> str | None:
        try:
            return self._parser.get("alembic", name, fallback=None)
        except ConfigParserError as error:
            raise ConfigError(f"{self.source}: {name} cannot be read: {error}") from error

    def _filled(self, name: str, text: str) -> str:
        try:
            return text % self._here
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{self.source}: {name} cannot be read: {text}", hint="Only %(here)s is replaced; write other % as %%."
            ) from error

    def text(self, name: str) -> str | None:
        value = self._ini(name)
        if value is None and name in self._table:
            value = self._filled(name, str(self._table[name]))
        return value

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if text and not text.strip().isdecimal():
            raise ConfigError(f"{self.source}: {name} is {text}, not a number")
        return int(text) if text else None

    def flag(self, name: str) -> bool:
        value = self._ini(name)
        return value == "true" if value is not None else self._table.get(name) is True

    def paths(self, name: str) -> list[str]:
        value = self._ini(name)
        if not value:
            listed = self._table.get(name) or []
            return [self._filled(name, str(path)) for path in ([listed] if isinstance(listed, str) else listed)]
        separator = self._ini("path_separator") or self._ini("version_path_separator")
        if separator is None:
            return [path for path in re.split(r", *|(?: +)", value) if path]
        if separator not in _SEPARATORS:
            raise ConfigError(f"{self.source}: path_separator is {separator}, not one of {', '.join(_SEPARATORS)}")
        return [path.strip() for path in value.split(_SEPARATORS[separator]) if path.strip()]


def _toml_table(path: Path, content: bytes) -> dict[str, Any]:
    import tomllib

    try:
        table = tomllib.loads(content.decode("utf-8")).get("tool", {}).get("alembic", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: [tool.alembic] is no table")
    return table


def _folder(text: str, root: Path, search: list[str]) -> Path:
    """A folder as Alembic finds it (`package:folder`, or relative to the working folder), else beside the config."""
    path = Path(text)
    if path.is_absolute():
        return path
    if ":" in text:
        return _package_folder(text, root, search)
    return path.absolute() if path.exists() or not (root / path).exists() else root / path


def _package_folder(text: str, root: Path, search: list[str]) -> Path:
    """Resolve `package.name:folder` by looking for the package's files; nothing of it is imported."""
    import sys
    from importlib.machinery import PathFinder

    package, *inside = text.split(":")
    places: list[str] = [*(str(root / path) for path in search), *sys.path]
    for part in package.split("."):
        spec = PathFinder.find_spec(part, places)
        if spec is None or spec.submodule_search_locations is None:
            raise ConfigError(f"{text}: the package {package} is not to be found")
        places = list(spec.submodule_search_locations)
    return Path(places[0], *inside)
