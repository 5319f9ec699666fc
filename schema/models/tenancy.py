"""Who uses the cluster: domains, groups (projects) and users."""

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from schema.identity import DomainID, GroupID, UserID
from schema.models.base import Base
from schema.models.columns import GUID, id_default


class Domain(Base):
    """A tenant."""

    __tablename__ = "domains"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    id: Mapped[DomainID] = mapped_column(GUID(DomainID), unique=True, server_default=id_default())


class Group(Base):
    """A project in a domain."""

    __tablename__ = "groups"
    __table_args__ = (UniqueConstraint("name", "domain_name"),)

    id: Mapped[GroupID] = mapped_column(GUID(GroupID), primary_key=True, server_default=id_default())
    name: Mapped[str] = mapped_column(String(64))
    domain_name: Mapped[str] = mapped_column(ForeignKey("domains.name", ondelete="CASCADE"), index=True)


class User(Base):
    """A person. Sessions keep the uuid of a user who is gone, so nothing refers to this table."""

    __tablename__ = "users"

    uuid: Mapped[UserID] = mapped_column(GUID(UserID), primary_key=True, server_default=id_default())
    email: Mapped[str] = mapped_column(String(64), unique=True)
    username: Mapped[str | None] = mapped_column(String(64))
    domain_name: Mapped[str | None] = mapped_column(ForeignKey("domains.name"), index=True)
