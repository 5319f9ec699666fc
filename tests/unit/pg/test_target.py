"""Reading database URLs: every spelling, and never a password in what is shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, make_url

from schema.errors import UsageError
from schema.pg import target as module
from schema.pg.target import Target, resolve_target

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "conninfo"),
    [
        ("postgresql://u@h/d", {"user": "u", "host": "h", "dbname": "d"}),
        ("postgres://u@h:5433/d", {"user": "u", "host": "h", "port": "5433", "dbname": "d"}),
        ("postgresql+psycopg2://h", {"host": "h"}),
        ("postgresql+asyncpg://u:p@h/d", {"user": "u", "password": "p", "host": "h", "dbname": "d"}),
        ("  postgresql://h/d\n", {"host": "h", "dbname": "d"}),
        ("postgresql://", {}),
        ("postgresql:///d?host=/run/pg&port=5433", {"dbname": "d", "host": "/run/pg", "port": "5433"}),
        ("postgresql://%2Frun%2Fpg:5433/d", {"dbname": "d", "host": "/run/pg", "port": "5433"}),
        ("postgresql://[::1]:5433/d", {"host": "::1", "port": "5433", "dbname": "d"}),
        ("postgresql://a:1,b:2/d", {"host": "a,b", "port": "1,2", "dbname": "d"}),
        ("postgresql://a,b:2/d", {"host": "a,b", "port": ",2", "dbname": "d"}),
        ("postgresql://u@/d?host=a:1&host=b:2", {"user": "u", "dbname": "d", "host": "a,b", "port": "1,2"}),
        ("postgresql://h/my%20db", {"host": "h", "dbname": "my db"}),
        ("postgresql://h/d?options=-c%20a.b%3D1&sslmode=require",
         {"host": "h", "dbname": "d", "options": "-c a.b=1", "sslmode": "require"}),
        ("postgresql://u:p%40%2F%3A%25%20@h/d", {"user": "u", "password": "p@/:% ", "host": "h", "dbname": "d"}),
        ("postgresql://u:50%off/:x é@h/d", {"user": "u", "password": "50%off/:x é", "host": "h", "dbname": "d"}),
    ],
)  # fmt: skip
def test_spellings(url: str, conninfo: dict[str, str]) -> None:
    target = Target.parse(url, "--url")
    assert target.url.drivername == "postgresql+psycopg"
    assert conninfo_to_dict(target.conninfo) == conninfo


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_every_password_arrives_as_it_is(password: str) -> None:
    rendered = URL.create("postgresql", "u", password, "h", 1, "d").render_as_string(hide_password=False)
    assert conninfo_to_dict(Target.parse(rendered, "--url").conninfo)["password"] == password


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{SECRET}@h/d",
        f"u:{SECRET}@h/d",
        f"postgresql:u:{SECRET}@h/d",
        f"postgresql://u:x@{SECRET}@h/d",
        f"postgresql://u:x@y/{SECRET}@h/d",
        f"postgresql://u:x?{SECRET}@h/d",
        f"postgresql://u:{SECRET}@h:port/d",
        f"postgresql://u:{SECRET}@h/d?bogus=1",
        f"postgresql://u:{SECRET}@h/d?sslmode=a&sslmode=b",
        f"postgresql://u:{SECRET}@h:1:2/d",
        f"postgresql://u:{SECRET}@h:0/d",
        f"postgresql://u:{SECRET}@h:65536/d",
        f"postgresql://u:{SECRET}@h:{'9' * 5000}/d",
        f"postgresql://u:{SECRET}@a:1,b:65536/d",
        f"postgresql://u:{SECRET}@h/d?connect_timeout=soon",
        f"postgresql://u:{SECRET}%00@h/d",
        f"postgresql://u:{SECRET}@h/d?host=%00",
    ],
)
def test_what_is_refused_is_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Target.parse(url, "DATABASE_URL")
    assert "DATABASE_URL" in refused.value.message
    assert SECRET not in refused.value.message + refused.value.hint


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        (f"postgresql://u:{SECRET}@h:1/d", "postgresql+psycopg://u:***@h:1/d"),
        (f"postgresql://u@/d?host=/run/pg&password={SECRET}", "postgresql+psycopg://u@/d?host=/run/pg&password=***"),
        (f"postgresql://h/d?sslpassword={SECRET}&sslmode=require",
         "postgresql+psycopg://h/d?sslmode=require&sslpassword=***"),
    ],
)  # fmt: skip
def test_masked(url: str, masked: str) -> None:
    target = Target.parse(url, "--url")
    assert target.masked == masked
    assert SECRET not in repr(target) + str(target)
    assert SECRET in target.conninfo


def test_the_first_that_is_given_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def resolved(url: str | None = None, ini_url: str | None = None) -> tuple[str | None, str]:
        target = resolve_target(url, ini_url=ini_url, state_dir=tmp_path, pg_bindir=None)
        return target.url.host, target.source

    monkeypatch.setenv("SCHEMACTL_URL", "postgresql://two")
    monkeypatch.setenv("DATABASE_URL", "postgresql://three")
    assert resolved("postgresql://one", "postgresql://four") == ("one", "--url")
    assert resolved(None, "postgresql://four") == ("two", "SCHEMACTL_URL")
    monkeypatch.setenv("SCHEMACTL_URL", "")
    assert resolved(None, "postgresql://four") == ("three", "DATABASE_URL")
    monkeypatch.delenv("DATABASE_URL")
    assert resolved(None, "postgresql://four") == ("four", "alembic.ini")
    assert not any(tmp_path.iterdir())


def test_the_masked_url_reads_back() -> None:
    target = Target.parse("postgresql://u@/d?host=/run/a b%2B&port=1", "--url")
    # psql reads it too: to libpq a + is no blank.
    assert target.masked == "postgresql+psycopg://u@/d?host=/run/a%20b%2B&port=1"
    assert make_url(target.masked).query == target.url.query
    assert make_url(target.masked).drivername == module.DRIVER
