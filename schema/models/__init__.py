"""What the database is. Importing this package registers every table with the one metadata."""

from schema.models.backfill import BackfillChunk, BackfillReject, BackfillRun
from schema.models.base import NAMING_CONVENTION, Base
from schema.models.deployments import (
    DeploymentRevision,
    DeploymentRevisionEnviron,
    DeploymentRevisionResourceSlot,
    Endpoint,
    Routing,
)
from schema.models.kernel_groups import (
    BootstrapScriptRevision,
    KernelGroup,
    KernelGroupEnviron,
    KernelGroupResourceSlot,
    SystemSessionEnviron,
)
from schema.models.kernels import Kernel, ResourceAllocation
from schema.models.resources import Agent, Image, ResourceSlotType, ScalingGroup, StorageVolume
from schema.models.sessions import Session, SessionDependency
from schema.models.tenancy import Domain, Group, User

metadata = Base.metadata

__all__ = [
    "NAMING_CONVENTION",
    "Agent",
    "BackfillChunk",
    "BackfillReject",
    "BackfillRun",
    "Base",
    "BootstrapScriptRevision",
    "DeploymentRevision",
    "DeploymentRevisionEnviron",
    "DeploymentRevisionResourceSlot",
    "Domain",
    "Endpoint",
    "Group",
    "Image",
    "Kernel",
    "KernelGroup",
    "KernelGroupEnviron",
    "KernelGroupResourceSlot",
    "ResourceAllocation",
    "ResourceSlotType",
    "Routing",
    "ScalingGroup",
    "Session",
    "SessionDependency",
    "StorageVolume",
    "SystemSessionEnviron",
    "User",
    "metadata",
]
