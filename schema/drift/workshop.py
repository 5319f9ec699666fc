"""Scratch databases like the live one: same major, encoding and locale, on a server where nothing is at stake."""

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import sql

from schema.errors import DatabaseError, SchemaError, ServerError, UsageError
from schema.migrate.project import own_config, state_dir
from schema.pg.catalog import Snapshot
from schema.pg.catalog.database import Database
from schema.pg.connect import connect, engine
from schema.pg.embedded import EmbeddedServer, default_state_dir
from schema.pg.errors import translate
from schema.pg.scratch import ScratchServer
from schema.pg.target import Target

T = TypeVar("T")

_DEBIAN = "/usr/lib/postgresql/{major}/bin"
_UNKNOWN_ROLE = re.compile(r'^role "(?P<name>.+)" does not exist$')
_MOST_ROLES = 100
_KEPT = "schemactl_kept_"
_MOST_KEPT = 3
_KEPT_ONES = "SELECT datname FROM pg_database WHERE datname LIKE %s ORDER BY oid DESC"

# Since 17 the locale of every provider is in one column.
_STANDING = """
    SELECT quote_ident(current_user), pg_encoding_to_char(encoding), datcollate, datctype,
        CASE datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' ELSE 'builtin' END,
        coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale')
    FROM pg_database AS d WHERE datname = 'template0'"""


@dataclass(frozen=True)
class Locale:
    """What of the live database a scratch database has: nothing that tells two databases of one server apart.

    It is a part of cached results' names and of the kept scratch database's.
    """

    encoding: str
    collation: str
    character_type: str
    provider: str
    locale: str | None

    @classmethod
    def of(cls, database: Database) -> Self:
        """Encoding and locale of a database."""
        return cls(
            database.encoding, database.collation, database.character_type, database.locale_provider, database.locale
        )


@dataclass
class Workshop:
    """A server for scratch databases."""

    server: Target
    server_version: int
    """Such as 150018."""
    ours: bool
    """The server is our own, so that roles may be made in it."""
    lasting: bool
    """It is there for the next run too."""
    creator: str
    """The role that makes everything here, quoted: it stands for whoever owns the live database's objects."""
    like: Locale | None
    """What a scratch database has to be like; None leaves it to the server."""
    template: Locale
    """What it is like when that is left to the server."""
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def empty(self) -> Iterator[sa.Connection]:
        """A connection to an empty database, for work that is rolled back at the end.

        On a server of ours it is kept from one run to the next, since making and dropping one takes longer than all
        else; an advisory lock of the session makes sure that only one run at a time works in it, and another one
        makes itself a fresh one.
        """
        with ExitStack() as stack:
            opened = self._kept(stack) if self.ours else None
            if opened is None:
                name = _fresh_name()
                # Before it is made: an interrupt may come while it is.
                stack.callback(self._drop, name)
                self._create(name)
                opened = self._opened(stack, name)
            yield opened

    @contextmanager
    def database(self, fill: Callable[[Target], None]) -> Iterator[Target]:
        """A fresh database, filled by what commits, and dropped at the end."""
        names: list[str] = []

        def attempt() -> Target:
            names.append(_fresh_name())
            self._create(names[-1])
            target = self._target(names[-1])
            fill(target)
            return target

        def undo() -> None:
            self._drop(names.pop())

        with self.roles_for(attempt, undo) as target:
            try:
                yield target
            finally:
                undo()

    @contextmanager
    def remembered(self, digest: str, fill: Callable[[Target], None]) -> Iterator[Target]:
        """Like `database`; where the server is ours and lasts, a copy of what an earlier run filled for the digest.

        Nobody is ever connected to the kept databases, of which there are a few; the oldest go.
        """
        if not (self.ours and self.lasting):
            with self.database(fill) as target:
                yield target
            return
        kept = f"{_KEPT}{digest}"
        with connect(self.server, application_name="schemactl drift", autocommit=True) as admin:
            names = [row[0] for row in admin.execute(_KEPT_ONES, [f"{_KEPT}%"])]
        with ExitStack() as stack:
            if kept not in names:
                target = stack.enter_context(self.database(fill))
                rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                try:
                    self._execute(rename.format(sql.Identifier(str(target.url.database)), sql.Identifier(kept)))
                except DatabaseError:
                    # Another run was faster, or somebody looks into it: then this one is just not kept.
                    yield target
                    return
                for name in names[_MOST_KEPT - 1 :]:
                    self._drop(name)
            yield stack.enter_context(self.clone(self._target(kept)))

    @contextmanager
    def clone(self, source: Target) -> Iterator[Target]:
        """A copy of a database of this server, dropped at the end; nobody may be connected to the source meanwhile."""
        name = f"schemactl_drift_{uuid.uuid4().hex[:12]}"
        template = sql.Identifier(str(source.url.database))
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), template))
        try:
            yield self._target(name)
        finally:
            self._drop(name)

    @contextmanager
    def roles_for(self, attempt: Callable[[], T], undo: Callable[[], None]) -> Iterator[T]:
        """Yield what `attempt` returns, with the roles that it names and the server lacks made on a server of ours.

        Each time one is lacking the attempt is undone and begins anew. The roles go when the block ends.
        """
        asked = 0
        with self._dropping() as made:
            while True:
                try:
                    done = attempt()
                    break
                except BaseException as error:
                    # Interrupts too: nothing may be left behind.
                    undo()
                    role = unknown_role(error) if self.ours else None
                    asked += 1
                    if role is None or asked > _MOST_ROLES:
                        raise
                    made.extend(self._made_role(role))
            yield done

    @contextmanager
    def roles(self, names: Iterable[str]) -> Iterator[None]:
        """Have these roles on a server of ours, made where they are lacking and gone at the end."""
        with self._dropping() as made:
            for name in names:
                made.extend(self._made_role(name))
            yield

    @contextmanager
    def _dropping(self) -> Iterator[list[str]]:
        made: list[str] = []
        try:
            yield made
        finally:
            for role in made:
                # Another run may use it: then that one's end removes it, or nothing does.
                with suppress(DatabaseError):
                    self._execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))

    def _made_role(self, role: str) -> list[str]:
        try:
            self._execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        except DatabaseError as error:
            # Another run was faster: then it is that one's to remove.
            if not isinstance(error.__cause__, psycopg.errors.DuplicateObject | psycopg.errors.UniqueViolation):
                raise
            return []
        return [role]

    def _kept(self, stack: ExitStack) -> sa.Connection | None:
        name = f"schemactl_drift_{hashlib.sha256(repr(self.like or self.template).encode()).hexdigest()[:12]}"
        with connect(self.server, application_name="schemactl drift", autocommit=True) as admin:
            exists = admin.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone()
        if exists is None:
            try:
                self._create(name)
            except DatabaseError as error:
                # Made by another run since; one that is only half made refuses connections below.
                if not isinstance(error.__cause__, psycopg.errors.DuplicateDatabase):
                    raise
        connection = self._opened(stack, name)
        free = connection.exec_driver_sql("SELECT pg_try_advisory_lock(hashtext('schemactl drift'))").scalar()
        connection.rollback()
        return connection if free else None

    def _opened(self, stack: ExitStack, name: str) -> sa.Connection:
        connection = engine(self._target(name), application_name="schemactl drift").connect()
        stack.callback(connection.close)
        return connection

    def _target(self, name: str) -> Target:
        return Target(self.server.url.set(database=name), "a scratch database")

    def _create(self, name: str) -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
        try:
            self._execute(statement + self._locale())
        except DatabaseError as error:
            if self.like is None or not isinstance(error.__cause__, psycopg.DataError | psycopg.ProgrammingError):
                raise
            self.notes.append(
                f"The scratch server cannot make a database with the live one's locale ({error.message}); "
                "its own is used, and encoding and locale are not compared."
            )
            self.like = None
            self._execute(statement)

    def _locale(self) -> sql.Composed:
        if self.like is None:
            return sql.SQL("").format()
        like = self.like
        options = sql.SQL(" ENCODING {} LC_COLLATE {} LC_CTYPE {} LOCALE_PROVIDER {}").format(
            sql.Literal(like.encoding),
            sql.Literal(like.collation),
            sql.Literal(like.character_type),
            sql.Identifier(like.provider),
        )
        if like.locale:
            word = "ICU_LOCALE" if like.provider == "icu" else "BUILTIN_LOCALE"
            options += sql.SQL(" {} {}").format(sql.SQL(word), sql.Literal(like.locale))
        return options

    def _drop(self, name: str) -> None:
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with connect(self.server, application_name="schemactl drift", autocommit=True) as connection:
            try:
                connection.execute(statement)
            except psycopg.Error as error:
                raise translate(error) or error from error


def _fresh_name() -> str:
    return f"schemactl_drift_{uuid.uuid4().hex[:12]}"


@contextmanager
def open_workshop(
    *,
    live: Snapshot | None,
    live_target: Target | None,
    scratch_url: str | None,
    pg_bindir: Path | None,
    ini: Path,
) -> Iterator[Workshop]:
    """Find or start a server of the live one's major for scratch databases.

    In this order: `scratch_url`; the embedded server when it is the live one; a throw-away server of `pg_bindir`; the
    embedded server; a throw-away server of a PostgreSQL that the system has installed. When none has the live major,
    the workshop says so in its notes, and only what is comparable should be compared.

    Raises:
        ServerError: no server could be started.
        UsageError: `scratch_url` names the live database itself.
    """
    like = None if live is None else next(map(Locale.of, live.of(Database)), None)
    with ExitStack() as stack:
        target, ours, lasting = _server(stack, live, live_target, scratch_url, pg_bindir, scratch_state_dir(ini))
        with connect(target, application_name="schemactl drift", autocommit=True) as connection:
            server_version = connection.info.server_version
            row = connection.execute(_STANDING).fetchone()
        assert row is not None
        workshop = Workshop(target, server_version, ours, lasting, row[0], like, Locale(*row[1:]))
        major = server_version // 10000
        if live is not None and live.major != major:
            workshop.like = None
            workshop.notes.append(
                f"The live server is PostgreSQL {live.major}, and the scratch server at hand is {major}: what the two "
                "print differently (names of NOT NULL constraints, view texts, new privileges) is not compared. "
                f"--scratch-url or --pg-bindir can name a PostgreSQL {live.major}."
            )
        yield workshop


def scratch_state_dir(ini: Path) -> Path:
    """Where the embedded server for scratch databases is: this project's own, and in the home for any other project.

    Another project's folder is not ours to put a server into.
    """
    return state_dir(ini) if ini.absolute() == own_config() else default_state_dir(None)


def _server(
    stack: ExitStack,
    live: Snapshot | None,
    live_target: Target | None,
    scratch_url: str | None,
    pg_bindir: Path | None,
    folder: Path,
) -> tuple[Target, bool, bool]:
    if scratch_url:
        target = Target.parse(scratch_url, "--scratch-url")
        if live_target is not None and target.url == live_target.url:
            # Nothing would be written there, but a script that can write should not even connect to it.
            raise UsageError(
                "--scratch-url is the live database itself",
                hint="Name another database of that server, such as postgres; scratch databases are made beside it.",
            )
        return target, False, True
    embedded = EmbeddedServer(folder)
    if live_target is not None and live_target.url.query.get("host") == str(embedded.socket):
        return Target(embedded.url, "the embedded server"), True, True
    if pg_bindir is not None:
        return _throw_away(stack, pg_bindir), True, False
    wanted = None if live is None else str(live.major)
    try:
        major = embedded.installation.major
    except ServerError:
        major = ""
    system = Path(_DEBIAN.format(major=wanted))
    if wanted is not None and major != wanted and (system / "initdb").is_file():
        return _throw_away(stack, system), True, False
    embedded.ensure_running()
    return Target(embedded.url, "the embedded server"), True, True


def _throw_away(stack: ExitStack, bindir: Path) -> Target:
    server = stack.enter_context(ScratchServer(bindir))
    return Target.parse(server.url(), "a scratch server")


def unknown_role(error: BaseException | None) -> str | None:
    """Name of the role whose absence is behind an error."""
    while error is not None:
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, psycopg.errors.UndefinedObject):
            found = _UNKNOWN_ROLE.match(cause.diag.message_primary or "")
            return found["name"] if found else None
        # Drivers other than psycopg have the message alone.
        found = _UNKNOWN_ROLE.match(str(cause).partition("\n")[0].rpartition(": ")[2])
        if found and not isinstance(error, SchemaError):
            return found["name"]
        error = error.__cause__
    return None
