"""Which database a command means, and who said so."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict, make_conninfo, timeout_from_conninfo

from schema.errors import UsageError

if TYPE_CHECKING:
    from schema.pg.embedded import EmbeddedServer

DRIVER = "postgresql+psycopg"

_SCHEMES = frozenset({"postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+asyncpg"})
_LARGEST_PORT = 65_535
_SECRET_PARAMETERS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
_ENCODE_HINT = "Write @, :, /, ? and % in a user, password or database as %40, %3A, %2F, %3F and %25."


@dataclass(frozen=True, repr=False)
class Target:
    """A database, and where its URL came from.

    `url` always has the driver name `postgresql+psycopg`. Neither `repr()` nor `masked` shows a password.
    """

    url: sa.URL
    source: str

    def __repr__(self) -> str:
        return f"Target({self.masked!r}, source={self.source!r})"

    @property
    def masked(self) -> str:
        """The URL for people: passwords hidden, those given as parameters too."""
        hidden = self.url.update_query_dict({name: "***" for name in self.url.query if name in _SECRET_PARAMETERS})
        text = hidden.render_as_string(hide_password=True)
        address, mark, parameters = text.partition("?")
        return address + mark + parameters.replace("%2F", "/").replace("%2A", "*").replace("+", "%20")

    @property
    def conninfo(self) -> str:
        """The same database as a libpq connection string, with every parameter, for `psycopg.connect`."""
        return make_conninfo("", **self.url.get_dialect()().create_connect_args(self.url)[1])

    @classmethod
    def parse(cls, url: str, source: str) -> "Target":
        """Read a URL as libpq or SQLAlchemy spell it.

        Raises:
            UsageError: it is no PostgreSQL URL, or a parameter is unknown. The message never repeats the URL.
        """
        parsed = _parse(url, source)
        target = cls(parsed, source)
        try:
            # Read here, or it is found only when connecting, where it looks like a fault of the server.
            timeout_from_conninfo(conninfo_to_dict(target.conninfo))
        except (psycopg.ProgrammingError, sa.exc.ArgumentError) as error:
            raise UsageError(
                f"the database URL of {source} has parameters or values that PostgreSQL's client library does not take",
                hint=f"Its parameters are: {', '.join(sorted(parsed.query))}.",
            ) from error
        return target


def named_target(url: str | None, *, ini_url: str | None) -> Target | None:
    """Find the database that is named: --url, SCHEMACTL_URL, DATABASE_URL, the ini's sqlalchemy.url, in this order.

    Raises:
        UsageError: the first URL found is not a PostgreSQL URL.
    """
    given = {
        "--url": url,
        "SCHEMACTL_URL": os.environ.get("SCHEMACTL_URL"),
        "DATABASE_URL": os.environ.get("DATABASE_URL"),
        "alembic.ini": ini_url,
    }
    for source, text in given.items():
        if text:
            return Target.parse(text, source)
    return None


def embedded_target(server: "EmbeddedServer") -> Target:
    """The database of an embedded server."""
    return Target(server.url, f"embedded PostgreSQL {server.installation.major}")


def resolve_target(url: str | None, *, ini_url: str | None, state_dir: Path, pg_bindir: Path | None) -> Target:
    """Find the database that is meant: the one that is named, see `named_target`.

    With none it is the embedded server of `state_dir`, which is started when it does not run.

    Raises:
        UsageError: the first URL found is not a PostgreSQL URL.
        ServerError: the embedded server cannot be started.
    """
    if named := named_target(url, ini_url=ini_url):
        return named
    from schema.pg.embedded import EmbeddedServer

    server = EmbeddedServer(state_dir, pg_bindir)
    server.ensure_running()
    return embedded_target(server)


def _parse(text: str, source: str) -> sa.URL:
    # The client library reads a text up to its first NUL: what follows, the host among it, would be its defaults.
    if "\0" in unquote(text):
        raise UsageError(f"the database URL of {source} has a NUL character (%00)", hint="PostgreSQL knows none.")
    scheme, separator, rest = text.strip().partition("://")
    if not separator or scheme not in _SCHEMES:
        raise UsageError(
            f"the database URL of {source} is not a PostgreSQL URL",
            hint="Write postgresql://user:password@host:5432/database, with ?host=/socket/folder for a Unix socket.",
        )
    location, _, parameters = rest.partition("?")
    # A second @ may be part of the password: taken for the host's, it would be printed.
    if location.count("@") > 1:
        raise UsageError(f"the database URL of {source} has more than one @", hint=_ENCODE_HINT)
    credentials, _, place = location.rpartition("@")
    user, colon, password = credentials.partition(":")
    hosts, _, database = place.partition("/")
    query: dict[str, str | tuple[str, ...]] = {}
    for name, value in parse_qsl(parameters, keep_blank_values=True):
        if name in query and name != "host":
            raise UsageError(f"the database URL of {source} gives the parameter {name} twice")
        before = query.get(name, ())
        query[name] = (*((before,) if isinstance(before, str) else before), value) if before else value
    host, port = None, None
    if "," in hosts:
        pairs = [_host_and_port(part, source) for part in hosts.split(",")]
        query["host"] = ",".join(name for name, _ in pairs)
        query["port"] = ",".join(str(number or "") for _, number in pairs)
    else:
        host, port = _host_and_port(hosts, source)
        if host.startswith("/"):
            query["host"], host = host, ""
    return sa.URL.create(
        DRIVER,
        unquote(user) or None,
        unquote(password) if colon else None,
        host or None,
        port,
        unquote(database) or None,
        query,
    )


def _host_and_port(text: str, source: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(?:\[(?P<address>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>\d{0,5}))?", text)
    if found is None:
        raise UsageError(f"host and port in the database URL of {source} cannot be read", hint=_ENCODE_HINT)
    port = int(found["port"]) if found["port"] else None
    if port is not None and not 1 <= port <= _LARGEST_PORT:
        raise UsageError(f"the database URL of {source} has a port that is not between 1 and {_LARGEST_PORT:,}")
    return found["address"] or unquote(found["name"] or ""), port
