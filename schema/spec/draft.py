"""A deployment request as it comes in, and the complete spec that it becomes."""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schema.identity import EnvironKey, ResourceSlotName


class RuntimeVariant(StrEnum):
    """What serves the model."""

    VLLM = "vllm"
    HUGGINGFACE_TGI = "huggingface-tgi"
    SGLANG = "sglang"
    NIM = "nim"
    MODULAR_MAX = "modular-max"
    CMD = "cmd"
    CUSTOM = "custom"


class RevisionDraft(BaseModel):
    """A deployment request; whatever it leaves out, a service definition may give.

    Values of the three tables are of any type here: only what a merge results in is validated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    runtime_variant: RuntimeVariant | None = None
    image: str | None = None
    """Canonical name, `registry/project/name:tag`."""
    architecture: str | None = None
    resource_slots: Mapping[str, object] | None = None
    """Slot name to quantity: a decimal, or a byte size such as `"4g"`."""
    resource_opts: Mapping[str, object] | None = None
    """`shmem`: a byte size, below the `mem` slot."""
    environ: Mapping[str, object] | None = Field(default=None, repr=False)
    startup_command: str | None = None
    bootstrap_script: str | None = None
    preopen_ports: tuple[int, ...] | None = None
    cluster_mode: str | None = None
    cluster_size: int | None = None
    model_definition_path: str | None = None
    """Path of the model definition in the model's folder."""


class RevisionSpec(BaseModel):
    """A complete, valid revision of a deployment."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    runtime_variant: RuntimeVariant
    image: str
    architecture: str
    resource_slots: Mapping[ResourceSlotName, Decimal]
    """What each kernel asks for; zeros are kept here, and dropped where they are written to a session."""
    shmem: int | None = None
    """Bytes."""
    environ: Mapping[EnvironKey, str] = Field(default_factory=dict, repr=False)
    startup_command: str | None = None
    bootstrap_script: str | None = Field(default=None, repr=False)
    preopen_ports: tuple[int, ...] = ()
    cluster_mode: Literal["single-node", "multi-node"] = "single-node"
    cluster_size: int = 1
    """Kernels of a session: one `main`, the rest `sub`."""
    model_definition_path: str | None = None
