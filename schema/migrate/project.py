"""Any Alembic project, opened by its ini: where its history is and what is in it."""

import configparser
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from alembic.config import Config
from alembic.script import Script, ScriptDirectory
from alembic.util import CommandError

import schema
from schema.errors import ConfigError, RevisionError, SchemaError

INI = "alembic.ini"
TOML = "pyproject.toml"


@dataclass(frozen=True)
class Revision:
    """A revision of the history."""

    id: str
    title: str
    """First line of its docstring."""
    path: Path

    @classmethod
    def of(cls, script: Script) -> Self:
        """The revision that Alembic calls a script."""
        return cls(script.revision, script.doc, Path(script.path))

    def __str__(self) -> str:
        return f"{self.id} {self.title}"


@dataclass(frozen=True)
class Project:
    """An Alembic project."""

    ini: Path
    config: Config
    script: ScriptDirectory

    @classmethod
    def open(cls, ini: Path) -> Self:
        """Read an ini and the revision files it leads to.

        Raises:
            ConfigError: the ini or a revision file cannot be read.
        """
        # Revision files are run for it; what one prints is no data of ours.
        with _readable(ini), redirect_stdout(sys.stderr):
            ini.read_text(encoding="utf-8")
            config = alembic_config(ini)
            if not config.file_config.has_section(config.config_ini_section):
                raise ConfigError(f"{ini} has no [{config.config_ini_section}] section")
            script = ScriptDirectory.from_config(config)
            project = cls(ini, config, script)
            project.heads()
        return project

    @property
    def url(self) -> str | None:
        """`sqlalchemy.url` of the ini.

        Raises:
            ConfigError: its percent signs are not doubled.
        """
        return ini_option(self.config, "sqlalchemy.url")

    def heads(self) -> tuple[str, ...]:
        """Ids of the newest revisions; one, unless the history has diverged."""
        return tuple(self.script.get_heads())

    def revision(self, identifier: str) -> Revision:
        """The revision of an id, a unique beginning of one, or `head`.

        Raises:
            RevisionError: there is none, or more than one.
        """
        try:
            script = self.script.get_revision(identifier)
        except CommandError as error:
            raise RevisionError(str(error), hint=f"The history is {self.script.dir}.") from error
        if script is None:
            raise RevisionError(f"{identifier} is no revision", hint="Give an id, or head.")
        return Revision.of(script)

    def pending(self, current: Sequence[str]) -> tuple[Revision, ...]:
        """Revisions that a database at `current` lacks, in the order they would run.

        Raises:
            RevisionError: the history does not know a current revision.
        """
        self.check_known(current)
        revisions = self.script.iterate_revisions("heads", tuple(current) or "base", implicit_base=True)
        return tuple(Revision.of(script) for script in reversed(list(revisions)))

    def check_known(self, current: Sequence[str]) -> None:
        """Make sure that the history holds every revision a database says it is at.

        Raises:
            RevisionError: it does not; the git ref that has it is named.
        """
        check_known(self.script, self.config, current)


def alembic_config(ini: Path, **options: Any) -> Config:
    """Alembic's configuration of an ini and the pyproject.toml beside it, either of which may be named or missing."""
    toml = ini.absolute().with_name(TOML)
    file = ini.absolute().with_name(INI) if ini.name == TOML else ini.absolute()
    config = Config(file if file.is_file() else None, toml_file=toml if toml.is_file() else None, **options)
    section = config.config_ini_section
    if config.file_config.has_section(section) or not config.toml_alembic_config:
        return config
    # Alembic misses a section from which it only reads what may be left out.
    config.file_config.add_section(section)
    return config


def config_path(config: Config) -> Path:
    """The file that a configuration was read from: the ini, where there is one."""
    return Path(config.config_file_name or config.toml_file_name or INI)


def check_known(script: ScriptDirectory, config: Config, current: Sequence[str]) -> None:
    """`Project.check_known`, for whoever has the parts only."""
    known = {revision.revision for revision in script.walk_revisions()}
    strangers = [identifier for identifier in current if identifier not in known]
    if not strangers:
        return
    refs = {name: _ref_with(config_path(config), name) for name in strangers}
    found = [f"{name} is in {ref}" for name, ref in refs.items() if ref]
    raise RevisionError(
        f"the database is at revision {', '.join(strangers)}, which {script.dir} does not have",
        hint=f"In git, {'; '.join(found)}: use those files."
        if found
        else "It was upgraded by a newer release or belongs to another project: use that one's history.",
    )


def _ref_with(ini: Path, identifier: str) -> str | None:
    # Here, as below: each run pays for what is imported above, and hardly one comes here.
    from schema.lineage.git import Repository
    from schema.lineage.layout import read_layout

    try:
        repository = Repository.around(read_layout(ini))
        return repository.ref_with(identifier) if repository else None
    except SchemaError:
        # It only helps to explain.
        return None


def find_config(given: Path | None) -> Path:
    """Find the ini that is meant: the given one, ALEMBIC_CONFIG, the working directory's, or this project's own.

    A pyproject.toml that speaks of Alembic will do too.

    Raises:
        ConfigError: the one that is named is not there.
    """
    # Alembic's own variable, so that `alembic` and `schemactl` open the same project.
    named = os.environ.get("ALEMBIC_CONFIG")
    chosen = given or (Path(named) if named else None)
    if chosen is not None:
        if not chosen.is_file():
            who = "-c" if given else "ALEMBIC_CONFIG"
            raise ConfigError(f"there is no file {chosen}", hint=f"{who} takes the path of an alembic.ini.")
        return chosen
    here, toml = Path(INI), Path(TOML)
    if not here.is_file() and toml.is_file() and b"[tool.alembic" in toml.read_bytes():
        return toml
    return here if here.is_file() else own_config()


def own_config() -> Path:
    """The ini of this project's own history: inside an installed wheel, or beside the package in a checkout."""
    packed = _packed_ini()
    return packed if packed.is_file() else packed.parents[2] / INI


def _packed_ini() -> Path:
    return Path(schema.__file__).resolve().parent / "_project" / INI


def state_dir(ini: Path) -> Path:
    """Folder of a project's embedded server: beside the ini, but in the home folder for an installed wheel's own."""
    from schema.pg.embedded import default_state_dir

    return default_state_dir(None if ini.resolve() == _packed_ini() else ini)


def ini_option(config: Config, name: str) -> str | None:
    """Read an option of the ini's main section, else of pyproject.toml; None when it is missing or empty.

    Raises:
        ConfigError: it holds a percent sign that is not doubled. The message does not repeat the value.
    """
    try:
        text = config.get_main_option(name)
        return str(config.toml_alembic_config.get(name, "")) or None if text is None else text or None
    except (configparser.Error, ValueError):
        # Not chained: the parser's message quotes the value, which may hold a password.
        raise ConfigError(
            f"{name} in {config_path(config)} cannot be read", hint="Write a percent sign in an ini as %%."
        ) from None


@contextmanager
def _readable(ini: Path) -> Iterator[None]:
    try:
        yield
    except (ConfigError, RevisionError):
        raise
    except OSError as error:
        raise ConfigError(f"{error.filename or ini} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{ini} is not UTF-8 text") from error
    except configparser.Error as error:
        # Only the kind of fault: the parser quotes lines, which may hold a password.
        line = getattr(error, "lineno", None)
        raise ConfigError(
            f"{ini} is not a valid ini file ({type(error).__name__}{f' in line {line}' if line else ''})"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{ini.parent / 'pyproject.toml'} cannot be read: {error}") from error
    except CommandError as error:
        raise ConfigError(f"{ini} does not lead to an Alembic history: {error}") from error
    except (Exception, SystemExit) as error:
        # Alembic executes every revision file to know its place; whatever one raises ends here.
        raise ConfigError(f"the history of {ini} cannot be loaded: {type(error).__name__}: {error}") from error
