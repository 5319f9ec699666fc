"""The one metadata, its naming convention, and the function that ids default to."""

from typing import Final

from sqlalchemy import DDL, MetaData, event
from sqlalchemy.orm import DeclarativeBase

NAMING_CONVENTION: Final = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of every mapped class; `Base.metadata` is what the database is."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)


# Decided by the server that runs it, not by the client: offline scripts don't know the version.
_UUID_GENERATE_V7 = DDL(  # type: ignore[no-untyped-call]
    """
DO $do$
BEGIN
    IF to_regprocedure('uuid_generate_v7()') IS NOT NULL THEN
        RETURN;
    ELSIF current_setting('server_version_num')::int >= 180000 THEN
        CREATE FUNCTION uuid_generate_v7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
        AS $fn$SELECT uuidv7()$fn$;
    ELSE
        CREATE FUNCTION uuid_generate_v7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
        AS $fn$SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
            FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid$fn$;
    END IF;
END
$do$
"""
)

event.listen(Base.metadata, "before_create", _UUID_GENERATE_V7)
