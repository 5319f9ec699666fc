"""What a spec refers to by name, looked up before anything is written: images, slot types, the session's owners."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from schema.identity import GroupID, ImageID
from schema.spec.merge import Layer, place_of
from schema.spec.problems import Problem
from schema.spec.session import SessionSpec
from schema.spec.values import is_slot_name, shown


class ImageName(NamedTuple):
    """What names one image: its canonical name, `registry/project/name:tag`, and its architecture."""

    canonical: str
    architecture: str


class ResolvedImage(NamedTuple):
    """The image row that a name stands for."""

    id: ImageID
    registry: str


class Where(NamedTuple):
    """A field and its place, for the message about it."""

    field: str
    place: str


@dataclass(frozen=True)
class References:
    """What a spec refers to, each with where it does."""

    images: Mapping[ImageName, Where]
    slots: Mapping[str, Where]
    domain_name: str | None = None
    group_id: GroupID | None = None
    scaling_group_name: str | None = None


# The registry is the part before the first slash, as in every image reference; where the project ends and the name
# begins is not written, so each way to split the rest is looked up, and two that exist make the name ambiguous.
_LOOK_UP = text(
    """
    SELECT ARRAY(SELECT slot_name FROM resource_slot_types WHERE slot_name = ANY(CAST(:slots AS text[]))) AS slots,
           CAST(:domain AS text) IS NULL OR EXISTS (SELECT FROM domains WHERE name = :domain) AS domain_name,
           CAST(:group AS uuid) IS NULL OR EXISTS (SELECT FROM groups WHERE id = :group) AS group_id,
           CAST(:scaling_group AS text) IS NULL
               OR EXISTS (SELECT FROM scaling_groups WHERE name = :scaling_group) AS scaling_group_name,
           (SELECT array_agg(ARRAY[CAST(wanted.number AS text), CAST(i.id AS text)])
            FROM unnest(CAST(:numbers AS int[]), CAST(:registries AS text[]), CAST(:projects AS text[]),
                        CAST(:names AS text[]), CAST(:tags AS text[]), CAST(:architectures AS text[]))
                 AS wanted (number, registry, project, name, tag, architecture)
            JOIN images AS i USING (registry, project, name, tag, architecture)) AS images
    """
)


def resolve(connection: Connection, wanted: References) -> tuple[dict[ImageName, ResolvedImage], list[Problem]]:
    """Look everything up in one statement: no lock is taken, nothing is written.

    Returns:
        The images found, and a problem for each reference that stands for nothing or for more than one row.
    """
    names = list(wanted.images)
    splits = [(number, *split) for number, name in enumerate(names) for split in _splits(name)]
    columns: list[list[object]] = [list(column) for column in zip(*splits, strict=True)] or [[] for _ in range(6)]
    row = connection.execute(
        _LOOK_UP,
        {
            "slots": [str(slot) for slot in wanted.slots],
            "domain": wanted.domain_name,
            "group": wanted.group_id,
            "scaling_group": wanted.scaling_group_name,
            **dict(zip(("numbers", "registries", "projects", "names", "tags", "architectures"), columns, strict=True)),
        },
    ).one()
    ids: dict[int, list[ImageID]] = {}
    for number, id_ in row.images or ():
        ids.setdefault(int(number), []).append(ImageID(id_))
    images = {
        name: ResolvedImage(ids[number][0], name.canonical.partition("/")[0])
        for number, name in enumerate(names)
        if len(ids.get(number, ())) == 1
    }
    problems = [
        Problem(*wanted.images[name], _image_fault(name, ids.get(number, [])))
        for number, name in enumerate(names)
        if name not in images
    ]
    problems += [
        Problem(*where, f"there is no resource slot {shown(slot)}: expected one of resource_slot_types")
        for slot, where in wanted.slots.items()
        if slot not in row.slots
    ]
    problems += [
        Problem(field, f"field {field}", f"there is no row of it: {shown(str(getattr(wanted, field)))}")
        for field in ("domain_name", "group_id", "scaling_group_name")
        if not getattr(row, field)
    ]
    return images, problems


def session_references(spec: SessionSpec) -> References:
    """What a session refers to."""
    images: dict[ImageName, Where] = {}
    slots: dict[str, Where] = {}
    for number, group in enumerate(spec.groups):
        place = f"field groups.{number}"
        images.setdefault(ImageName(group.image, group.architecture), Where("image", f"{place}.image"))
        for slot in group.resource_slots:
            slots.setdefault(slot, Where("resource_slots", f"{place}.resource_slots"))
    return References(images, slots, spec.domain_name, spec.group_id, spec.scaling_group_name)


def revision_references(merged: Layer) -> References:
    """What the merge of a request and a definition refers to, as far as it can be looked up.

    Image and architecture must be valid where they are given. Slots are looked up whether or not their quantities are.
    """
    images: dict[ImageName, Where] = {}
    image, architecture = (merged.get((field,)) for field in ("image", "architecture"))
    if image and architecture and isinstance(image.value, str) and isinstance(architecture.value, str):
        place = place_of(("image",), image.source)
        if architecture.source != image.source:
            place += f" with {place_of(('architecture',), architecture.source)}"
        images[ImageName(image.value, architecture.value)] = Where("image", place)
    slots = {
        path[1]: Where(".".join(path), place_of(path, entry.source))
        for path, entry in merged.items()
        if path[0] == "resource_slots" and is_slot_name(path[1])
    }
    return References(images, slots)


def _splits(image: ImageName) -> Iterator[tuple[str, str, str, str, str]]:
    repository, _, tag = image.canonical.rpartition(":")
    registry, *parts = repository.split("/")
    for cut in range(len(parts)):
        yield registry, "/".join(parts[:cut]), "/".join(parts[cut:]), tag, image.architecture


def _image_fault(image: ImageName, ids: Collection[UUID]) -> str:
    name = f"{shown(image.canonical)} for {shown(image.architecture)}"
    if not ids:
        return f"there is no image {name}: expected one of images"
    return f"the image {name} is ambiguous, it may be any of {', '.join(sorted(map(str, ids)))}"
