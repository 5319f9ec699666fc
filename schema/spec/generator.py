"""Makes a complete spec from a request and a service definition: one generator per runtime variant."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

from schema.errors import InvalidValueError
from schema.spec import values
from schema.spec.definition import Reading, ServiceDefinition
from schema.spec.draft import RevisionDraft, RevisionSpec, RuntimeVariant
from schema.spec.merge import Entry, Layer, Path, Precedence, merge_documents, place_of, places_of
from schema.spec.problems import Problem, SpecError

_SCALARS: Final[Mapping[str, Callable[[object], object]]] = {
    "image": values.image_name,
    "architecture": values.architecture,
    "startup_command": values.plain_text,
    "bootstrap_script": values.bootstrap_script,
    "preopen_ports": values.ports,
    "cluster_mode": values.cluster_mode,
    "cluster_size": values.kernel_count,
    "model_definition_path": values.plain_text,
}

_TABLES: Final[Mapping[str, tuple[Callable[[object], str], Callable[[object], object]]]] = {
    "resource_slots": (values.slot_name, values.slot_quantity),
    "environ": (values.environ_key, values.environ_value),
}


@dataclass(frozen=True)
class GeneratedRevision:
    """A spec, and for each of its values the document that gave it."""

    spec: RevisionSpec
    sources: Mapping[Path, str]
    """Path to `request`, `definition` or `definition:<variant>`; defaults have none."""


class InvalidRevisionError(SpecError):
    """The merge of a request and a definition has faults; `merged` is what it resulted in."""

    def __init__(self, problems: list[Problem], variant: RuntimeVariant, merged: Layer) -> None:
        super().__init__(problems, subject=f"The {variant} revision")
        self.merged = merged


class RevisionGenerator:
    """Generates the revisions of one runtime variant.

    `generate` runs load, merge, validate, in this order, for every variant: a subclass supplies hooks and cannot
    define another `generate`. The hook is `required`.
    """

    required: ClassVar[tuple[str, ...]] = ("image", "architecture", "resource_slots")
    """Fields that the merged result must have."""

    def __init__(self, variant: RuntimeVariant) -> None:
        self.variant = variant

    def __init_subclass__(cls) -> None:
        if "generate" in vars(cls):
            raise TypeError(f"{cls.__name__} defines generate, which is final: its order of steps is the contract")

    @final
    def generate(
        self,
        request: RevisionDraft | Mapping[str, object],
        definition: ServiceDefinition | None = None,
        precedence: Precedence = Precedence.DEFINITION,
    ) -> GeneratedRevision:
        """Merge a request with a definition, and validate the result.

        Args:
            request: a draft, or the fields of one as a document gives them, unchecked.
            definition: the model's definition; the sections of other variants are not looked at.
            precedence: which of both wins where both give a value.

        Raises:
            InvalidRevisionError: with every fault of structure and of the merged values.
        """
        reading = Reading(self.variant)
        fields = request if isinstance(request, Mapping) else vars(request)
        layer = reading.request(fields)
        root, section = reading.definition(definition)
        merged = merge_documents(layer, root, section, precedence)
        return self._validated(merged, reading)

    def _validated(self, merged: Layer, reading: Reading) -> GeneratedRevision:
        problems = reading.problems
        accepted: dict[str, Any] = {"runtime_variant": self.variant, "resource_slots": {}, "environ": {}}
        sources: dict[Path, str] = {}
        for path, entry in merged.items():
            sources[path] = entry.source
            problems.extend(self._accept(path, entry, accepted))
        given = {path[0] for path in merged} | reading.unread
        problems.extend(
            Problem(field, places_of((field,), self.variant), f"missing, and {self.variant} needs it")
            for field in self.required
            if field not in given
        )
        if fault := values.shmem_fault(accepted.get("shmem"), accepted["resource_slots"].get("mem")):
            shmem, mem = ("resource_opts", "shmem"), ("resource_slots", "mem")
            place = f"{place_of(shmem, sources[shmem])} with {place_of(mem, sources[mem])}"
            problems.append(Problem("resource_opts.shmem", place, fault))
        if problems:
            raise InvalidRevisionError(problems, self.variant, merged)
        return GeneratedRevision(RevisionSpec(**accepted), sources)

    def _accept(self, path: Path, entry: Entry, accepted: dict[str, Any]) -> Iterator[Problem]:
        field = path[0]
        try:
            if check := _SCALARS.get(field):
                accepted[field] = check(entry.value)
            elif field in _TABLES:
                check_key, check_value = _TABLES[field]
                try:
                    key = check_key(path[1])
                except InvalidValueError as error:
                    yield _problem(path, entry, error)
                    check_value(entry.value)
                else:
                    accepted[field][key] = check_value(entry.value)
            elif path == ("resource_opts", "shmem"):
                accepted["shmem"] = values.byte_size(entry.value)
            elif field == "resource_opts":
                raise InvalidValueError("unknown, expected shmem")  # noqa: TRY301 - one place makes the problem
            elif entry.value != self.variant:
                raise InvalidValueError(f"differs from {self.variant}, the variant asked for")  # noqa: TRY301
        except InvalidValueError as error:
            yield _problem(path, entry, error)


def _problem(path: Path, entry: Entry, error: InvalidValueError) -> Problem:
    message = f"{error.message}. {error.hint}" if error.hint else error.message
    return Problem(".".join(path), place_of(path, entry.source), message)


class CustomGenerator(RevisionGenerator):
    """Generator of `custom`, whose model definition says how the model is served."""

    required = (*RevisionGenerator.required, "model_definition_path")


GENERATORS: Final[Mapping[RuntimeVariant, RevisionGenerator]] = {
    variant: (CustomGenerator if variant is RuntimeVariant.CUSTOM else RevisionGenerator)(variant)
    for variant in RuntimeVariant
}
"""The generator of each runtime variant."""


def variant_of(request: RevisionDraft | Mapping[str, object], asked: RuntimeVariant | None = None) -> RuntimeVariant:
    """The runtime variant that a request is for: the one asked for, else its own field.

    Raises:
        SpecError: neither names one, or the field's is unknown.
    """
    if asked is not None:
        return asked
    field = request.get("runtime_variant") if isinstance(request, Mapping) else request.runtime_variant
    if isinstance(field, str) and field in [*RuntimeVariant]:
        return RuntimeVariant(field)
    found = values.shown(field) if isinstance(field, str) else "none" if field is None else values.kind_of(field)
    message = f"expected one of {', '.join(RuntimeVariant)}, found {found}"
    raise SpecError([Problem("runtime_variant", "request field runtime_variant", message)], subject="The request")
