import os
from pathlib import Path

import pytest

import schema
from schema.errors import ConfigError, ExitCode, RevisionError
from schema.migrate.project import Project, find_config, own_config, state_dir

ROOT = Path(schema.__file__).parents[1]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALEMBIC_CONFIG", raising=False)
    monkeypatch.delenv("SCHEMACTL_STATE_DIR", raising=False)


def test_the_ini_that_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_config(None) == own_config() == ROOT / "alembic.ini"
    toml = tmp_path / "pyproject.toml"
    toml.write_text("[tool.other]\n")
    assert find_config(None) == own_config()
    toml.write_text("[tool.alembic]\n")
    assert find_config(None).absolute() == toml
    here = tmp_path / "alembic.ini"
    here.touch()
    assert find_config(None).absolute() == here
    named, given = tmp_path / "named.ini", tmp_path / "given.ini"
    named.touch()
    given.touch()
    monkeypatch.setenv("ALEMBIC_CONFIG", str(named))
    assert find_config(None) == named
    assert find_config(given) == given


def test_an_ini_that_is_named_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"there is no file nope\.ini") as refused:
        find_config(Path("nope.ini"))
    assert refused.value.hint.startswith("-c ")
    monkeypatch.setenv("ALEMBIC_CONFIG", "nope.ini")
    with pytest.raises(ConfigError) as refused:
        find_config(None)
    assert refused.value.hint.startswith("ALEMBIC_CONFIG ")
    assert refused.value.exit_code is ExitCode.USAGE


def test_an_installed_wheel_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "site/schema/_project/alembic.ini"
    packed.parent.mkdir(parents=True)
    monkeypatch.setattr(schema, "__file__", str(tmp_path / "site/schema/__init__.py"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert own_config() == tmp_path / "site/alembic.ini"
    packed.touch()
    assert find_config(None) == packed
    # Data do not belong among installed packages.
    assert state_dir(packed) == tmp_path / "home/.schemactl"
    assert state_dir(tmp_path / "mine.ini") == tmp_path / ".schemactl"


def test_this_project() -> None:
    project = Project.open(own_config())
    assert project.url is None
    assert len(project.heads()) == 1
    assert project.revision("head").id == project.heads()[0]
    assert str(project.revision("3b8e")) == "3b8e1d6c9a47 Create system_session_environ."
    everything = project.pending(())
    assert everything[0].id == "8c1f0a5e2d73"
    assert everything[-1].id == project.heads()[0]
    assert project.pending(["51d33226c0a5"]) == tuple(
        revision
        for revision in everything
        if revision.id not in {"8c1f0a5e2d73", "d4a27f90b6e1", "3b8e1d6c9a47", "51d33226c0a5"}
    )
    assert project.pending(project.heads()) == ()
    with pytest.raises(RevisionError, match="does not have"):
        project.pending(["feedc0ffee00"])
    with pytest.raises(RevisionError, match="nope"):
        project.revision("nope")


BROKEN = {
    "no section": ("script_location = x\n", "is not a valid ini file (MissingSectionHeaderError in line 1)"),
    "other section": ("[other]\na = 1\n", "has no [alembic] section"),
    "no location": ("[alembic]\npath_separator = os\n", "No 'script_location' key found in configuration."),
    "location not there": ("[alembic]\nscript_location = %(here)s/nope\npath_separator = os\n", "Path doesn't exist"),
    "twice": ("[alembic]\na = 1\na = 2\n", "is not a valid ini file (DuplicateOptionError in line 3)"),
    "percent": ("[alembic]\nscript_location = 50%\n", "is not a valid ini file (InterpolationSyntaxError)"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_ini(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.ini"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        Project.open(path)
    assert message in refused.value.message
    assert str(path) in refused.value.message
    assert refused.value.exit_code is ExitCode.USAGE


def test_a_broken_ini_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "broken.ini"
    path.write_text("[alembic]\nsqlalchemy.url postgresql sekret\n")
    with pytest.raises(ConfigError) as refused:
        Project.open(path)
    assert "sekret" not in refused.value.message
    assert refused.value.__cause__ is None


def test_a_url_whose_percent_signs_are_not_doubled(tmp_path: Path) -> None:
    path = tmp_path / "alembic.ini"
    text = f"[alembic]\nscript_location = {ROOT / 'migrations'}\npath_separator = os\n"
    path.write_text(f"{text}sqlalchemy.url = postgresql://u:sek%40ret@h/d\n")
    project = Project.open(path)
    with pytest.raises(ConfigError) as refused:
        _ = project.url
    assert refused.value.message == f"sqlalchemy.url in {path} cannot be read"
    assert refused.value.hint == "Write a percent sign in an ini as %%."
    assert refused.value.__cause__ is None
    path.write_text(f"{text}sqlalchemy.url = postgresql://u:sek%%40ret@h/d\n")
    assert Project.open(path).url == "postgresql://u:sek%40ret@h/d"


def test_an_ini_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "alembic.ini"
    path.write_bytes(b"[alembic]\n\xff\xfe\n")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        Project.open(path)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        Project.open(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_ini_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "alembic.ini"
    path.touch(mode=0)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        Project.open(path)


def history(folder: Path, **files: str) -> Path:
    (folder / "history/versions").mkdir(parents=True)
    for name, text in files.items():
        (folder / f"history/versions/{name}.py").write_text(text)
    path = folder / "alembic.ini"
    path.write_text("[alembic]\nscript_location = %(here)s/history\npath_separator = os\n")
    return path


def test_a_revision_file_that_cannot_be_loaded(tmp_path: Path) -> None:
    path = history(tmp_path, a="import no_such_module\n")
    with pytest.raises(ConfigError, match=r"the history of .* cannot be loaded: ModuleNotFoundError"):
        Project.open(path)


def test_a_history_of_two_heads_and_one_of_none(tmp_path: Path) -> None:
    path = history(
        tmp_path,
        a='"""One."""\nrevision = "a"\ndown_revision = None\n',
        b='"""Two."""\nrevision = "b"\ndown_revision = "a"\n',
        c='"""Three."""\nrevision = "c"\ndown_revision = "a"\n',
    )
    project = Project.open(path)
    assert sorted(project.heads()) == ["b", "c"]
    assert sorted(revision.id for revision in project.pending(["a"])) == ["b", "c"]
    with pytest.raises(RevisionError, match="Multiple head revisions are present"):
        project.revision("head")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert Project.open(history(empty)).heads() == ()
    assert Project.open(empty / "alembic.ini").pending(()) == ()
