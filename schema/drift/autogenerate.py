"""Completes what Alembic's autogenerate has found: adds what it does not see, takes out what is no difference."""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import context
from alembic.autogenerate.api import AutogenContext
from alembic.operations import ops
from alembic.util import CommandError

from schema.drift.accept import read_acceptances
from schema.drift.capture import Configuration
from schema.drift.compare import compare
from schema.drift.difference import Change, Difference
from schema.drift.filters import Filters
from schema.drift.models import made_models
from schema.drift.operations import DriftOp
from schema.drift.verdict import comparable
from schema.drift.workshop import open_workshop
from schema.errors import SchemaError
from schema.migrate.project import Project
from schema.pg.catalog import Key, Kind, Snapshot, read_snapshot
from schema.pg.connect import connect
from schema.pg.target import Target

_ORDER = {kind: rank for rank, kind in enumerate(Kind)}


def complete(autogen_context: AutogenContext, upgrade_ops: ops.UpgradeOps) -> None:
    """Make the operations say every difference between the models and the live database, and nothing else.

    Scratch databases are where SCHEMACTL_SCRATCH_URL or SCHEMACTL_PG_BINDIR say, else on the embedded server. Accepted
    drift of pyproject.toml is left out.

    Raises:
        CommandError: the comparison could not be made; a check that fails to look must not be green.
    """
    try:
        differences = _differences(autogen_context)
    except SchemaError as error:
        raise CommandError(f"{error.message.rstrip('.')}. {error.hint}".rstrip()) from error
    assert autogen_context.dialect is not None
    merge(upgrade_ops, differences, autogen_context.dialect)


def merge(upgrade_ops: ops.UpgradeOps, differences: Sequence[Difference], dialect: sa.Dialect) -> None:
    """Drop Alembic's operations that no difference backs, and add one for each difference that they do not cover."""
    namer = _Namer(dialect)
    by_key = {each.key: [other for other in differences if other.key == each.key] for each in differences}
    covered: set[int] = set()
    upgrade_ops.ops[:] = _kept(upgrade_ops.ops, namer, by_key, covered)
    added = [each for each in differences if id(each) not in covered]
    needed = [each for each in added if each.change is Change.MISSING and _ORDER[each.kind] < _ORDER[Kind.TABLE]]
    renamed = [each for each in added if each.change is Change.RENAMED]
    # A reflected index or constraint has the names of before: it is dropped before they change, and, since a downgrade
    # is the reverse, made anew after they have changed back.
    removed, rest = _split(upgrade_ops.ops) if renamed else ([], upgrade_ops.ops)
    upgrade_ops.ops[:] = [
        *(DriftOp(each) for each in needed),
        *removed,
        *(DriftOp(each) for each in renamed),
        *rest,
        *(DriftOp(each) for each in added if each not in needed and each not in renamed),
    ]


def _split(
    operations: Sequence[ops.MigrateOperation],
) -> tuple[list[ops.MigrateOperation], list[ops.MigrateOperation]]:
    """The operations that drop indexes and constraints, and the others."""
    removed: list[ops.MigrateOperation] = []
    rest: list[ops.MigrateOperation] = []
    for operation in operations:
        if isinstance(operation, ops.ModifyTableOps):
            for part, into in zip(_split(operation.ops), (removed, rest), strict=True):
                if part:
                    into.append(ops.ModifyTableOps(operation.table_name, part, schema=operation.schema))
        else:
            (removed if isinstance(operation, ops.DropIndexOp | ops.DropConstraintOp) else rest).append(operation)
    return removed, rest


def _differences(autogen_context: AutogenContext) -> list[Difference]:
    connection = autogen_context.connection
    assert connection is not None
    config = context.config
    ini = Path(config.config_file_name or "alembic.ini")
    target = Target.parse(connection.engine.url.render_as_string(hide_password=False), "the environment")
    live = _live(connection, target)
    configuration = Configuration.of(autogen_context.opts)
    bindir = os.environ.get("SCHEMACTL_PG_BINDIR")
    with open_workshop(
        live=live,
        live_target=target,
        scratch_url=os.environ.get("SCHEMACTL_SCRATCH_URL"),
        pg_bindir=Path(bindir) if bindir else None,
        ini=ini,
    ) as workshop:
        schemas = {configuration.version_schema}
        with made_models(workshop, configuration.metadata, schemas=schemas, extensions_of=live) as models:
            wanted = models.snapshot
            if live.main_owner is not None:
                wanted = wanted.with_owner(workshop.creator, live.main_owner)
            excluded = {configuration.version_table}
            found = compare(wanted.without(excluded), live.without(excluded), judge=models.judge)
        if wanted.major != live.major:
            found = [each for each in found if comparable(each)]
        elif workshop.like is None:
            found = [each for each in found if each.kind != Kind.DATABASE]
    project = Project.open(ini)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    entries = [each for each in read_acceptances(project) if not each.expired(today, project, ())]
    return [
        each
        for each in Filters([configuration]).kept(found)
        if each.equivalent is None and not any(entry.covers(each) for entry in entries)
    ]


def _live(connection: sa.Connection, target: Target) -> Snapshot:
    driver = connection.connection.driver_connection
    if isinstance(driver, psycopg.Connection):
        return read_snapshot(driver)
    # Another driver: the same database once more, by ours.
    with connect(target, application_name="schemactl drift", autocommit=True) as own:
        return read_snapshot(own)


class _Namer:
    """Identities of the catalog for names of the models."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._quote = dialect.identifier_preparer.quote
        self._default = dialect.default_schema_name or "public"

    def member(self, schema: str | None, *names: object) -> str:
        """Of a table and what is in it, or of an index."""
        return ".".join(self._quote(str(name)) for name in (schema or self._default, *names))


_Differences = dict[Key, list[Difference]]


def _kept(
    operations: Sequence[ops.MigrateOperation], namer: _Namer, differences: _Differences, covered: set[int]
) -> list[ops.MigrateOperation]:
    kept: list[ops.MigrateOperation] = []
    for operation in operations:
        if isinstance(operation, ops.ModifyTableOps):
            operation.ops[:] = _kept(operation.ops, namer, differences, covered)
            if operation.ops:
                kept.append(operation)
        elif isinstance(operation, ops.AlterColumnOp):
            if _column_kept(operation, namer, differences, covered):
                kept.append(operation)
        elif (claim := _claim(operation, namer)) is None or _backed(claim, namer, operation, differences, covered):
            kept.append(operation)
    return kept


def _claim(operation: ops.MigrateOperation, namer: _Namer) -> tuple[Key, str | None] | None:
    """The object that an operation is about, and the attribute; None for one that is not Alembic's comparison."""
    match operation:
        case ops.CreateTableOp() | ops.DropTableOp():
            return Key(Kind.TABLE, namer.member(operation.schema, operation.table_name)), None
        case ops.CreateTableCommentOp() | ops.DropTableCommentOp():
            return Key(Kind.TABLE, namer.member(operation.schema, operation.table_name)), "comment"
        case ops.AddColumnOp():
            return Key(Kind.COLUMN, namer.member(operation.schema, operation.table_name, operation.column.name)), None
        case ops.DropColumnOp():
            return Key(Kind.COLUMN, namer.member(operation.schema, operation.table_name, operation.column_name)), None
        case ops.CreateIndexOp() | ops.DropIndexOp():
            return Key(Kind.INDEX, namer.member(operation.schema, operation.index_name)), None
        case ops.DropConstraintOp():
            name = operation.constraint_name
            return Key(Kind.CONSTRAINT, namer.member(operation.schema, operation.table_name, name)), None
        case ops.AddConstraintOp():
            constraint = operation.to_constraint()
            table = constraint.table
            return Key(Kind.CONSTRAINT, namer.member(table.schema, table.name, constraint.name)), None
    return None


def _backed(
    claim: tuple[Key, str | None],
    namer: _Namer,
    operation: ops.MigrateOperation,
    differences: _Differences,
    covered: set[int],
) -> bool:
    """Whether a difference is behind the operation; then the operation covers it."""
    key, attribute = claim
    backing = [
        each
        for each in differences.get(key, [])
        if each.change is not Change.RENAMED and (attribute is None or each.attribute == attribute)
    ]
    if isinstance(operation, ops.CreateTableOp | ops.AddColumnOp | ops.DropTableOp | ops.DropColumnOp):
        backing = [each for each in backing if each.attribute is None]
    covered.update(id(each) for each in backing)
    if backing:
        return True
    # Parts of a table that comes or goes are not listed as differences of their own.
    name = getattr(operation, "table_name", None)
    if name is None or key.kind == Kind.TABLE:
        return False
    table = Key(Kind.TABLE, namer.member(getattr(operation, "schema", None), name))
    return any(each.change in {Change.MISSING, Change.EXTRA} for each in differences.get(table, []))


def _column_kept(operation: ops.AlterColumnOp, namer: _Namer, differences: _Differences, covered: set[int]) -> bool:
    """Take out of the operation what is no difference; whether anything is left."""
    key = Key(Kind.COLUMN, namer.member(operation.schema, operation.table_name, operation.column_name))
    found = {each.attribute: each for each in differences.get(key, [])}

    def backed(*attributes: str) -> bool:
        backing = [found[attribute] for attribute in attributes if attribute in found]
        covered.update(id(each) for each in backing)
        return bool(backing)

    if operation.modify_type is not None and not backed("type", "collation"):
        operation.modify_type = None
    if operation.modify_nullable is not None and not backed("not null"):
        operation.modify_nullable = None
    if operation.modify_server_default is not False and not backed("default", "generated", "identity options"):
        operation.modify_server_default = False
    if operation.modify_comment is not False and not backed("comment"):
        operation.modify_comment = False
    return operation.has_changes()
