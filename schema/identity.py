"""Typed ids and natural keys, so that a role cannot be passed where a slot name is wanted.

Both compare and hash as the plain `uuid.UUID` and `str` that they are; they add a name, not a format.
"""

import re
from typing import ClassVar
from uuid import UUID


class EntityId(UUID):
    """Base of the ids: a UUID with a kind."""

    __slots__ = ()

    @classmethod
    def of(cls, value: UUID) -> "EntityId":
        """The same 128 bits as this kind."""
        return cls(int=value.int)


class NaturalKey(str):
    """Base of the natural keys: text with a kind."""

    __slots__ = ()
    max_length: ClassVar[int]
    """Length of the column that stores it, in characters."""

    @classmethod
    def key_name(cls) -> str:
        """The key's own name, in snake case."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class KernelGroupRole(NaturalKey):
    """Role of a kernel group in its session, such as `main` or `worker`."""

    max_length = 64


class ResourceSlotName(NaturalKey):
    """Name of a resource slot type, such as `cpu` or `cuda.device`."""

    max_length = 64

    @classmethod
    def key_name(cls) -> str:
        """The name that every table uses for it."""
        return "slot_name"


class EnvironKey(NaturalKey):
    """Name of an environment variable; its format is in `schema.environ`."""

    max_length = 256


class DomainID(EntityId):
    """Id of a domain."""

    __slots__ = ()


class GroupID(EntityId):
    """Id of a group (project)."""

    __slots__ = ()


class UserID(EntityId):
    """Id of a user."""

    __slots__ = ()


class ScalingGroupID(EntityId):
    """Id of a scaling group."""

    __slots__ = ()


class ImageID(EntityId):
    """Id of an image."""

    __slots__ = ()


class SessionID(EntityId):
    """Id of a session."""

    __slots__ = ()


class KernelID(EntityId):
    """Id of a kernel."""

    __slots__ = ()


class ResourceAllocationID(EntityId):
    """Id of a resource allocation."""

    __slots__ = ()


class KernelGroupID(EntityId):
    """Id of a kernel group."""

    __slots__ = ()


class KernelGroupResourceSlotID(EntityId):
    """Id of a kernel group's resource slot."""

    __slots__ = ()


class EndpointID(EntityId):
    """Id of an endpoint."""

    __slots__ = ()


class DeploymentRevisionID(EntityId):
    """Id of a deployment revision."""

    __slots__ = ()


class RoutingID(EntityId):
    """Id of a routing."""

    __slots__ = ()


class StorageVolumeID(EntityId):
    """Id of a storage volume."""

    __slots__ = ()


class BootstrapScriptRevisionID(EntityId):
    """Id of a bootstrap script revision."""

    __slots__ = ()


class BackfillRunID(EntityId):
    """Id of a backfill run."""

    __slots__ = ()
