"""Baseline SQLAlchemy 2.1 models for the drift measurements.

12 tables in schema public, plus (through DDL events, the way a project does it)
two extensions, a plain function, a trigger with its function, a view, a
materialised view with an index, one RLS policy, two partitions and a few grants.

Cluster-level prerequisites: roles app_ro, app_rw, other_owner.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CHAR,
    CheckConstraint,
    Computed,
    DDL,
    DateTime,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    Uuid,
    column,
    event,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import (
    ARRAY,
    DOMAIN,
    ENUM,
    ExcludeConstraint,
    INET,
    JSONB,
    TSTZRANGE,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


metadata = Base.metadata


class AccountRole(enum.Enum):
    owner = "owner"
    admin = "admin"
    member = "member"
    guest = "guest"


account_role = Enum(AccountRole, name="account_role", metadata=metadata)
order_status = ENUM("draft", "placed", "paid", "shipped", "cancelled", name="order_status", metadata=metadata)
slug_text = DOMAIN(
    "slug_text",
    String(63),
    not_null=False,
    metadata=metadata,
    check=text("VALUE ~ '^[a-z][a-z0-9-]*$'"),
    constraint_name="slug_text_format",
)
order_number_seq = Sequence("order_number_seq", metadata=metadata, start=1000, increment=1, data_type=BigInteger)


class Organisation(Base):
    __tablename__ = "organisation"
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    slug: Mapped[str] = mapped_column(slug_text, unique=True)
    name: Mapped[str] = mapped_column(String(120), comment="Legal name")
    country: Mapped[str] = mapped_column(CHAR(2), server_default="DE")
    settings: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'::jsonb"))
    created_at: Mapped[dt.datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    updated_at: Mapped[dt.datetime] = mapped_column(DateTime(timezone=True), server_default=text("CURRENT_TIMESTAMP"))
    __table_args__ = (
        CheckConstraint("length(name) > 0", name="name_not_empty"),
        {"comment": "Tenant of the system"},
    )


class Account(Base):
    __tablename__ = "account"
    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True, server_default=text("gen_random_uuid()"))
    org_id: Mapped[int] = mapped_column(ForeignKey("organisation.id", ondelete="CASCADE"), index=True)
    email: Mapped[str] = mapped_column(String(320, collation="C"))
    display_name: Mapped[str | None] = mapped_column(Text)
    role: Mapped[AccountRole] = mapped_column(account_role, server_default="member")
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    locale: Mapped[str] = mapped_column(String(16), server_default="en")
    is_active: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    failed_logins: Mapped[int] = mapped_column(Integer, server_default=text("0"))
    balance: Mapped[decimal.Decimal] = mapped_column(Numeric(24, 6), server_default=text("0"))
    last_seen_at: Mapped[dt.datetime | None] = mapped_column(DateTime(timezone=True))
    __table_args__ = (
        UniqueConstraint("org_id", "email"),
        CheckConstraint("position('@' in email) > 1", name="email_shape"),
        CheckConstraint("failed_logins >= 0 AND failed_logins <= 1000", name="failed_logins_range"),
        # 63 bytes and more: SQLAlchemy truncates with a hash suffix
        CheckConstraint("balance > -1000000", name="balance_must_never_fall_below_the_overdraft_limit_of_the_plan"),
        Index("ix_account_email_lower", text("lower(email)"), unique=True),
        Index("ix_account_active_last_seen", "last_seen_at", postgresql_where=text("is_active")),
        Index("ix_account_display_name_pattern", "display_name", postgresql_ops={"display_name": "text_pattern_ops"}),
        {"comment": "Person who can sign in"},
    )


class ConfigEntry(Base):
    __tablename__ = "config_entry"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)  # SERIAL
    org_id: Mapped[int] = mapped_column(ForeignKey("organisation.id", ondelete="CASCADE"))
    key: Mapped[str] = mapped_column(String(128))
    environment: Mapped[str | None] = mapped_column(String(32))
    value: Mapped[dict[str, Any]] = mapped_column(JSONB)
    version: Mapped[int] = mapped_column(SmallInteger, server_default=text("1"))
    __table_args__ = (
        CheckConstraint("key ~ '^[A-Za-z_][A-Za-z0-9_]*$'", name="key_format"),
        UniqueConstraint(
            "org_id", "key", "environment", name="uq_config_entry_key", postgresql_nulls_not_distinct=True
        ),
        Index("ix_config_entry_value", "value", postgresql_using="gin", postgresql_ops={"value": "jsonb_path_ops"}),
    )


class Product(Base):
    __tablename__ = "product"
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=False, start=100, increment=1), primary_key=True)
    sku: Mapped[str] = mapped_column(String(40), unique=True)
    title: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text, server_default="goods")
    currency: Mapped[str] = mapped_column(String(3), server_default="EUR")
    price: Mapped[decimal.Decimal] = mapped_column(Numeric(24, 6))
    tax_rate: Mapped[decimal.Decimal] = mapped_column(Numeric(6, 4), server_default=text("0.19"))
    price_gross: Mapped[decimal.Decimal] = mapped_column(
        Numeric(24, 6), Computed("price * (1 + tax_rate)", persisted=True)
    )
    __table_args__ = (
        CheckConstraint("price >= 0", name="price_not_negative"),
        CheckConstraint("currency IN ('EUR', 'USD', 'GBP')", name="currency_known"),
        CheckConstraint("kind IN ('goods', 'service')", name="kind_known"),
        Index("ix_product_title_trgm", "title", postgresql_using="gin", postgresql_ops={"title": "gin_trgm_ops"}),
    )


class CustomerOrder(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    number: Mapped[int] = mapped_column(
        BigInteger, order_number_seq, server_default=order_number_seq.next_value(), unique=True
    )
    org_id: Mapped[int] = mapped_column(ForeignKey("organisation.id", ondelete="RESTRICT"))
    account_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("account.id", ondelete="SET NULL"))
    status: Mapped[str] = mapped_column(order_status, server_default="draft")
    placed_at: Mapped[dt.datetime | None] = mapped_column(DateTime(timezone=True))
    total: Mapped[decimal.Decimal] = mapped_column(Numeric(24, 6), server_default=text("0"))
    note: Mapped[str | None] = mapped_column(Text)
    __table_args__ = (
        Index("ix_customer_order_org_placed", "org_id", text("placed_at DESC NULLS LAST")),
        Index("ix_customer_order_account_cov", "account_id", postgresql_include=["status", "total"]),
    )


class OrderLine(Base):
    __tablename__ = "order_line"
    order_id: Mapped[int] = mapped_column(BigInteger)
    line_no: Mapped[int] = mapped_column(Integer)
    product_id: Mapped[int] = mapped_column(ForeignKey("product.id", ondelete="RESTRICT", onupdate="CASCADE"))
    quantity: Mapped[int] = mapped_column(Integer, server_default=text("1"))
    unit_price: Mapped[decimal.Decimal] = mapped_column(Numeric(24, 6))
    __table_args__ = (
        PrimaryKeyConstraint("order_id", "line_no"),
        ForeignKeyConstraint(
            ["order_id"], ["customer_order.id"], ondelete="CASCADE", deferrable=True, initially="DEFERRED"
        ),
        UniqueConstraint("order_id", "product_id"),
        CheckConstraint("quantity > 0", name="quantity_positive"),
        Index("ix_order_line_product_qty", "product_id", "quantity"),
    )


class Resource(Base):
    __tablename__ = "resource"
    id: Mapped[int] = mapped_column(Integer, Identity(), primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("resource.id", ondelete="SET NULL"))
    name: Mapped[str] = mapped_column(String(80))
    capacity: Mapped[int] = mapped_column(Integer, server_default=text("1"))


class Booking(Base):
    __tablename__ = "booking"
    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    resource_id: Mapped[int] = mapped_column(ForeignKey("resource.id", ondelete="CASCADE"))
    during: Mapped[Any] = mapped_column(TSTZRANGE)
    cancelled: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    __table_args__ = (
        ExcludeConstraint(
            (column("resource_id"), "="),
            (column("during"), "&&"),
            where=text("NOT cancelled"),
            using="gist",
            name="ex_booking_overlap",
        ),
        CheckConstraint("NOT isempty(during)", name="during_not_empty"),
    )


class ApiToken(Base):
    __tablename__ = "api_token"
    id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True, server_default=text("gen_random_uuid()"))
    account_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("account.id", ondelete="CASCADE"), index=True)
    token_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    label: Mapped[str | None] = mapped_column(String(64), comment="Shown in the UI")
    expires_at: Mapped[dt.datetime | None] = mapped_column(DateTime(timezone=True))


class Webhook(Base):
    """Leaf table that nothing refers to."""

    __tablename__ = "webhook"
    id: Mapped[int] = mapped_column(Integer, Identity(), primary_key=True)
    url: Mapped[str] = mapped_column(String(500))
    secret: Mapped[str] = mapped_column(Text)
    retries: Mapped[int] = mapped_column(Integer, server_default=text("3"))
    __table_args__ = (Index("ix_webhook_url_whose_name_is_exactly_sixty_three_bytes_long_abc", "url"),)


class CurrencyRate(Base):
    """Small table without any constraint but its key (column order tests)."""

    __tablename__ = "currency_rate"
    base: Mapped[str] = mapped_column(CHAR(3), primary_key=True)
    quote: Mapped[str] = mapped_column(CHAR(3), primary_key=True)
    rate: Mapped[decimal.Decimal] = mapped_column(Numeric(24, 12))
    source: Mapped[str | None] = mapped_column(Text)


class AuditEvent(Base):
    __tablename__ = "audit_event"
    id: Mapped[int] = mapped_column(BigInteger, autoincrement=False)
    occurred_at: Mapped[dt.datetime] = mapped_column(DateTime(timezone=True))
    actor: Mapped[uuid.UUID | None] = mapped_column(Uuid)
    kind: Mapped[str] = mapped_column(String(60))
    ip: Mapped[Any | None] = mapped_column(INET)
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'::jsonb"))
    __table_args__ = (
        PrimaryKeyConstraint("id", "occurred_at"),
        Index("ix_audit_event_kind", "kind"),
        {"postgresql_partition_by": "RANGE (occurred_at)"},
    )


# ---- the rest of the schema, attached the way projects attach it ------------
FN_TOUCH = """CREATE OR REPLACE FUNCTION public.touch_updated_at() RETURNS trigger
LANGUAGE plpgsql AS $fn$
BEGIN
  NEW.updated_at = now();
  RETURN NEW;
END;
$fn$"""
FN_TOTAL = """CREATE OR REPLACE FUNCTION public.order_total(p_order bigint) RETURNS numeric
LANGUAGE sql STABLE AS $fn$
  SELECT coalesce(sum(quantity * unit_price), 0) FROM public.order_line WHERE order_id = p_order
$fn$"""
TG_TOUCH = """CREATE TRIGGER organisation_touch BEFORE UPDATE ON public.organisation
FOR EACH ROW EXECUTE FUNCTION public.touch_updated_at()"""
VW_ACTIVE = """CREATE VIEW public.active_account AS
SELECT a.id, a.org_id, a.email, o.slug FROM public.account a
JOIN public.organisation o ON o.id = a.org_id WHERE a.is_active"""
MV_DAILY = """CREATE MATERIALIZED VIEW public.order_daily AS
SELECT date_trunc('day', placed_at) AS day, count(*) AS orders FROM public.customer_order
WHERE placed_at IS NOT NULL GROUP BY 1"""

BEFORE = [
    "CREATE EXTENSION IF NOT EXISTS btree_gist",
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
]
AFTER = [
    FN_TOUCH,
    FN_TOTAL,
    TG_TOUCH,
    VW_ACTIVE,
    MV_DAILY,
    "CREATE UNIQUE INDEX ix_order_daily_day ON public.order_daily (day)",
    "CREATE TABLE public.audit_event_p2026 PARTITION OF public.audit_event "
    "FOR VALUES FROM ('2026-01-01+00') TO ('2027-01-01+00')",
    "CREATE TABLE public.audit_event_pdefault PARTITION OF public.audit_event DEFAULT",
    "ALTER TABLE public.api_token ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY api_token_live ON public.api_token FOR SELECT TO app_ro "
    "USING (expires_at IS NULL OR expires_at > now())",
    "GRANT USAGE ON SCHEMA public TO app_ro, app_rw",
    "GRANT SELECT ON public.organisation, public.account, public.product TO app_ro",
    "GRANT SELECT, INSERT, UPDATE ON public.customer_order TO app_rw",
]


def _run(stmts):
    def listener(target, connection, **kw):
        for s in stmts:
            connection.exec_driver_sql(s)

    return listener


event.listen(metadata, "before_create", _run(BEFORE))
event.listen(metadata, "after_create", _run(AFTER))

if __name__ == "__main__":
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateTable

    for t in metadata.sorted_tables:
        print(str(CreateTable(t).compile(dialect=postgresql.dialect())))
