"""What went wrong in real clusters: one bad entry each, and replicas that differ from their representative.

A mistake is made where the backfill looks: on the representative kernel, or on the session if the kernel has nothing.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from schema.seed.copytext import array_field, json_field
from schema.seed.drafts import Era, SessionDraft


class Mistake(NamedTuple):
    """A bad entry, the era of the sessions that have it, and how it is made."""

    era: Era
    spoil: Callable[[SessionDraft], None]


def _shmem(spelling: str) -> Mistake:
    def spoil(draft: SessionDraft) -> None:
        draft.kernels[0].resource_opts = f'{{"shmem": {spelling}}}'

    return Mistake(Era.SESSION_HAS_MORE, spoil)


def _entry(entry: str | None) -> Mistake:
    def spoil(draft: SessionDraft) -> None:
        draft.kernels[0].environ = array_field(["RUN_TAG=before", entry, "TZ=UTC"])

    return Mistake(Era.KERNEL_LISTS, spoil)


def _key_in_object(draft: SessionDraft) -> None:
    draft.kernels[0].environ = "{}"
    draft.environ = json_field({"RUN_TAG": "object", "my-key": "1"})


def _request(resource_type: str, quantity: str) -> Mistake:
    def spoil(draft: SessionDraft) -> None:
        draft.kernels[0].slots = ()
        draft.groups[0].requested = json_field(
            [{"resource_type": "cpu", "quantity": "2"}, {"resource_type": resource_type, "quantity": quantity}]
        )

    return Mistake(Era.OPTIONS_NESTED, spoil)


def _options(options: str) -> Mistake:
    def spoil(draft: SessionDraft) -> None:
        draft.options = options

    return Mistake(Era.OPTIONS_FLAT, spoil)


def _nan(draft: SessionDraft) -> None:
    draft.kernels[0].slots = (("cpu", "1"), ("mem", "NaN"))


def _starts_at(draft: SessionDraft) -> None:
    draft.groups[0].starts_at = '"tomorrow morning"'


def _batch_timeout(draft: SessionDraft) -> None:
    draft.groups[0].batch_timeout = '"1h"'


MISTAKES: Final = (
    _shmem('"lots"'),
    _entry("WITHOUT_EQUALS"),
    _request("vendor.gone", "1"),
    _options('{"kernel_groups": {"main": {}}}'),
    _shmem("-67108864"),
    _entry("1LEADING=digit"),
    Mistake(Era.OPTIONS_FLAT, _nan),
    _entry(None),
    Mistake(Era.OPTIONS_NESTED, _starts_at),
    _shmem('"inf"'),
    _entry("=no key"),
    _request("mem", "plenty"),
    Mistake(Era.SESSION_ONLY, _key_in_object),
    _shmem('"1e9"'),
    _entry("TRAILING\n=newline"),
    Mistake(Era.OPTIONS_FLAT, _batch_timeout),
    _options('{"kernel_groups": ["main"]}'),
    _shmem('"1.5"'),
    _entry("K" * 257 + "=long"),
    _shmem("true"),
)
"""In the order of their turns, so that a small seed has one of most fields."""


def _other_image(draft: SessionDraft) -> None:
    last = draft.kernels[-1]
    last.image = next(image for image in draft.pool.images if image is not last.image)


def _other_command(draft: SessionDraft) -> None:
    draft.kernels[-1].command = "python debug.py"


def _other_ports(draft: SessionDraft) -> None:
    draft.kernels[-1].ports = "{8081,8080}"


def _other_environ(draft: SessionDraft) -> None:
    draft.kernels[-1].environ = array_field(["RUN_TAG=diverged"])


def _other_shmem(draft: SessionDraft) -> None:
    draft.kernels[-1].resource_opts = '{"shmem": 33554432}'


def _other_slots(draft: SessionDraft) -> None:
    draft.kernels[-1].slots = (("cpu", "3"), ("mem", "3221225472"))


DIVERGENCES: Final = (_other_image, _other_command, _other_ports, _other_environ, _other_shmem, _other_slots)
"""Each changes the last replica of the last role to what no other has."""
