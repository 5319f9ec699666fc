"""The cases of a request and a definition, in both precedences where it matters."""

import contextlib
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from schema.errors import InvalidValueError
from schema.models.status import ClusterMode
from schema.spec.definition import ServiceDefinition
from schema.spec.draft import RevisionDraft, RuntimeVariant
from schema.spec.generator import (
    GENERATORS,
    GeneratedRevision,
    InvalidRevisionError,
    RevisionGenerator,
    variant_of,
)
from schema.spec.merge import Precedence
from schema.spec.problems import SpecError
from schema.spec.values import CLUSTER_MODES

BOTH = pytest.mark.parametrize("precedence", list(Precedence))
IMAGE = "cr.example.com/stable/vllm:1"
OTHER = "cr.example.com/stable/vllm:2"
COMPLETE = {"image": IMAGE, "architecture": "x86_64", "resource_slots": {"cpu": "1", "mem": "4g"}}
DEFINITION = f"""
[environment]
image = "{OTHER}"
architecture = "aarch64"
[resource_slots]
cpu = 2
mem = "8g"
"""


def generate(
    request: Mapping[str, Any] | RevisionDraft,
    definition: str | bytes | None = None,
    precedence: Precedence = Precedence.DEFINITION,
    variant: str = "vllm",
) -> GeneratedRevision:
    data = definition.encode() if isinstance(definition, str) else definition
    parsed = None if data is None else ServiceDefinition.parse(data)
    return GENERATORS[RuntimeVariant(variant)].generate(request, parsed, precedence)


def problems(*args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(InvalidRevisionError) as caught:
        generate(*args, **kwargs)
    return [str(problem) for problem in caught.value.problems]


@BOTH
def test_request_only(precedence: Precedence) -> None:
    made = generate(COMPLETE, None, precedence)
    assert made.spec.image == IMAGE
    assert made.spec.resource_slots == {"cpu": Decimal(1), "mem": Decimal(4 * 1024**3)}
    assert set(made.sources.values()) == {"request"}


@BOTH
@pytest.mark.parametrize("request_", [{}, RevisionDraft()], ids=["raw", "draft"])
def test_definition_only_root_only(request_: Any, precedence: Precedence) -> None:
    made = generate(request_, DEFINITION, precedence)
    assert (made.spec.image, made.spec.architecture) == (OTHER, "aarch64")
    assert set(made.sources.values()) == {"definition"}


@BOTH
def test_variant_section_only(precedence: Precedence) -> None:
    section = DEFINITION.replace("[", "[vllm.")
    made = generate({}, section, precedence)
    assert made.spec.image == OTHER
    assert set(made.sources.values()) == {"definition:vllm"}


@BOTH
def test_variant_section_over_root_field_by_field(precedence: Precedence) -> None:
    made = generate(
        {}, DEFINITION + '[vllm.environment]\narchitecture = "x86_64"\n[vllm.resource_slots]\nmem="16g"', precedence
    )
    assert (made.spec.image, made.spec.architecture) == (OTHER, "x86_64")
    assert made.spec.resource_slots == {"cpu": Decimal(2), "mem": Decimal(16 * 1024**3)}
    assert made.sources == {
        ("image",): "definition",
        ("architecture",): "definition:vllm",
        ("resource_slots", "cpu"): "definition",
        ("resource_slots", "mem"): "definition:vllm",
    }


def test_definition_wins_by_default_and_request_when_asked() -> None:
    request = COMPLETE | {"resource_slots": {"cpu": "1", "cuda.device": 1}, "environ": {"A": "r", "R": "r"}}
    definition = DEFINITION + '[environ]\nA = "d"\nD = "d"\n[resource_opts]\nshmem = "1g"'
    made = generate(request, definition)
    assert made.spec.image == OTHER
    assert made.spec.resource_slots == {"cpu": 2, "mem": 8 * 1024**3, "cuda.device": 1}
    assert made.spec.environ == {"A": "d", "R": "r", "D": "d"}
    assert made.spec.shmem == 1024**3
    assert made.sources[("environ", "A")] == "definition"
    assert made.sources[("resource_slots", "cuda.device")] == "request"

    made = generate(request, definition, Precedence.REQUEST)
    assert made.spec.image == IMAGE
    assert made.spec.resource_slots == {"cpu": 1, "mem": 8 * 1024**3, "cuda.device": 1}
    assert made.spec.environ == {"A": "r", "R": "r", "D": "d"}
    assert made.spec.shmem == 1024**3
    assert made.sources[("environ", "A")] == "request"
    assert made.sources[("environ", "D")] == "definition"


@BOTH
def test_other_variants_sections_are_ignored_whatever_they_hold(precedence: Precedence) -> None:
    definition = DEFINITION + '[sglang.environ]\n"BAD-KEY" = 1\n[sglang.nonsense]\n[nim]\nresource_slots = 4\n'
    assert generate({}, 'cmd = "x"\n' + definition, precedence) == generate({}, definition, precedence)
    assert generate({}, definition, precedence) == generate({}, DEFINITION, precedence)


@BOTH
def test_image_from_one_and_architecture_from_the_other(precedence: Precedence) -> None:
    slots = {"resource_slots": {"cpu": 1}}
    made = generate({"image": IMAGE, **slots}, '[environment]\narchitecture = "aarch64"', precedence)
    assert (made.spec.image, made.spec.architecture) == (IMAGE, "aarch64")
    made = generate({"architecture": "aarch64", **slots}, f'[environment]\nimage = "{IMAGE}"', precedence)
    assert (made.spec.image, made.spec.architecture) == (IMAGE, "aarch64")
    assert made.sources[("image",)] == "definition"


@BOTH
@pytest.mark.parametrize("blank", ["", "  \t\n", None])
def test_blank_and_null_count_as_missing(blank: str | None, precedence: Precedence) -> None:
    request = {"image": blank, "architecture": blank, "resource_slots": {"cpu": blank}, "startup_command": blank,
               "resource_opts": {"shmem": blank}, "environ": None}  # fmt: skip
    made = generate(request, DEFINITION, precedence)
    assert made == generate({}, DEFINITION, precedence)
    if blank is not None:
        section = f'\n[vllm]\nenvironment.image = """{blank}"""\nresource_slots.cpu = """{blank}"""\n'
        assert generate({}, DEFINITION + section, precedence) == made
    assert [p.split(":")[0] for p in problems(request, None, precedence)] == [
        f"request field {field} or definition key vllm.{key} or definition key {key}"
        for field, key in [
            ("image", "environment.image"),
            ("architecture", "environment.architecture"),
            ("resource_slots", "resource_slots"),
        ]
    ]


def test_an_environment_variable_may_be_empty_and_null_gives_none() -> None:
    made = generate(COMPLETE | {"environ": {"EMPTY": "", "GONE": None}}, '[environ]\nGONE = "kept"\n')
    assert made.spec.environ == {"EMPTY": "", "GONE": "kept"}


@BOTH
def test_empty_slot_table(precedence: Precedence) -> None:
    assert generate(COMPLETE, "[resource_slots]", precedence).spec.resource_slots["cpu"] == 1
    assert generate(COMPLETE | {"resource_slots": {}}, DEFINITION, precedence).spec.resource_slots["cpu"] == 2
    (problem,) = problems(COMPLETE | {"resource_slots": {}}, "[resource_slots]", precedence)
    assert problem.endswith("definition key resource_slots: missing, and vllm needs it")


@BOTH
@pytest.mark.parametrize(
    ("toml", "quantity"),
    [('"4g"', 4 * 1024**3), ("4", 4), ('"0.5"', Decimal("0.5")), ("1e3", 1000), ("0.1", Decimal("0.1"))],
)
def test_quantities_are_exact(toml: str, quantity: Decimal, precedence: Precedence) -> None:
    made = generate({"image": IMAGE, "architecture": "x86_64"}, f"[resource_slots]\ncpu = {toml}", precedence)
    assert made.spec.resource_slots["cpu"] == quantity
    assert type(made.spec.resource_slots["cpu"]) is Decimal


@BOTH
@pytest.mark.parametrize(
    "toml", ["true", "-1", '"lots"', "inf", "nan", "1e999999999", "[1]", "0.0000001", "0x1" + "0" * 5000, "2026-01-01"]
)
def test_unreadable_quantities_name_the_key(toml: str, precedence: Precedence) -> None:
    (problem,) = problems(
        {"image": IMAGE, "architecture": "x86_64"}, f"[vllm.resource_slots]\ncpu = {toml}", precedence
    )
    assert problem.startswith("definition key vllm.resource_slots.cpu: ")
    assert len(problem) < 300


@pytest.mark.parametrize("value", [True, "lots", -1, 0.5, [], {}])
def test_only_what_survives_the_merge_is_validated(value: object) -> None:
    request = COMPLETE | {"resource_slots": {"cpu": value}, "environ": {"A": 5}, "image": 7}
    definition = DEFINITION + '[environ]\nA = "text"\n'
    assert generate(request, definition).spec.environ == {"A": "text"}
    assert [p.split(":")[0] for p in problems(request, definition, Precedence.REQUEST)] == [
        "request field image",
        "request field resource_slots.cpu",
        "request field environ.A",
    ]


@BOTH
@pytest.mark.parametrize("key", ["A-B", "1A", "A\n", "A\0", "A" * 257, "", "é", "A B"])
def test_bad_environ_keys(key: str, precedence: Precedence) -> None:
    (problem,) = problems(COMPLETE | {"environ": {key: "s3cret"}}, None, precedence)
    assert problem.startswith("request field environ.")
    assert "is no environment key: expected ^[A-Za-z_][A-Za-z0-9_]*$, at most 256 characters" in problem
    assert "s3cret" not in problem
    assert "\n" not in problem
    assert "\0" not in problem
    escaped = "".join(f"\\u{ord(c):04x}" if not c.isalnum() else c for c in key)
    (problem,) = problems(COMPLETE, f'[environ]\n"{escaped}" = "s3cret"', precedence)
    assert problem.startswith("definition key environ.")
    assert "s3cret" not in problem


@BOTH
def test_a_bad_key_with_a_bad_value_is_two_faults(precedence: Precedence) -> None:
    request = COMPLETE | {"resource_slots": {"": "lots"}, "environ": {"A-B": 5}}
    assert problems(request, None, precedence) == [
        'request field resource_slots."": expected the name of a resource slot, found a blank one',
        "request field resource_slots.\"\": 'lots' is not a quantity. Write a number of 0 or more, or text such as "
        '"1.5 GiB".',
        "request field environ.A-B: 'A-B' is no environment key: expected ^[A-Za-z_][A-Za-z0-9_]*$, at most 256 "
        "characters",
        "request field environ.A-B: expected text, found an integer. Put it between quotes.",
    ]


def test_environ_key_of_256_characters() -> None:
    assert list(generate(COMPLETE | {"environ": {"A" * 256: "x"}}).spec.environ) == ["A" * 256]


@BOTH
@pytest.mark.parametrize("value", ['it\'s "quoted"', "two\nlines\r\n", "é 漢字 \U0001f600", "x" * 2**20])
def test_environ_values_are_kept_as_they_are(value: str, precedence: Precedence) -> None:
    assert generate(COMPLETE | {"environ": {"A": value}}, "", precedence).spec.environ == {"A": value}


@pytest.mark.parametrize("quote", ['"', "'", '"""', "'''"])
def test_dots_in_values_and_comments_are_no_long_key(quote: str) -> None:
    value = "a." * 2000 + ("" if "'" in quote else '\\"' + "b." * 50)
    made = generate(COMPLETE, f"# {'a.' * 2000}\n[environ]\nA = {quote}{value}{quote} # it's {'b.' * 50}\nB = 'x'\n")
    assert made.spec.environ == {"A": value.replace('\\"', '"'), "B": "x"}


@pytest.mark.parametrize(
    "unit", ["a", '"', '\\"', "'", ".", "a.", '"."', "'''", '"""', "a.'", "#.\n", "a .b = 1\n", "\\n"]
)
def test_a_file_of_one_megabyte_takes_no_minute(unit: str) -> None:
    data = (unit * (1024**2 // len(unit))).encode()
    started = time.process_time()
    for text in (data, b'[environ]\nA = "' + data[:-20] + b'"'):
        with contextlib.suppress(InvalidValueError):
            ServiceDefinition.parse(text)
    assert time.process_time() - started < 10


def test_a_definition_with_a_value_of_one_megabyte() -> None:
    made = generate(COMPLETE, '[environ]\nA = """' + "x" * 2**20 + '"""\n')
    assert len(made.spec.environ["A"]) == 2**20


@pytest.mark.parametrize("value", [5, True, "s3cret\0", "s3cret\ud800", ["s3cret"], {"s3cret": 1}, Decimal("31337")])
def test_environ_values_that_cannot_be_stored_are_never_shown(value: object) -> None:
    (problem,) = problems(COMPLETE | {"environ": {"KEY": value}})
    assert problem.startswith("request field environ.KEY: expected text")
    assert "s3cret" not in problem
    assert "31337" not in problem


@BOTH
def test_structure_faults_of_a_definition(precedence: Precedence) -> None:
    definition = """
vllm = "a variant that is a string"
resource_slots = "4g"
imaeg = 1
[vlm.environ]
A = "x"
[environment]
architecure = "x86_64"
[resource_opts]
shmen = 1
[something]
"""
    assert problems(COMPLETE, definition, precedence) == [
        "definition key resource_slots: expected a table, found text",
        "definition key imaeg: unknown, expected environment, resource_slots, resource_opts or environ, "
        "or a section named after a runtime variant",
        "definition key vlm: unknown, did you mean vllm?",
        "definition key environment.architecure: unknown, did you mean architecture?",
        "definition key something: unknown, expected environment, resource_slots, resource_opts or environ, "
        "or a section named after a runtime variant",
        "definition key vllm: expected a table, found text",
        "definition key resource_opts.shmen: unknown, expected shmem",
    ]


def test_a_misspelt_variant_is_named_without_another_variant() -> None:
    (problem,) = problems(COMPLETE, "[vlm]\n", variant="sglang")
    assert problem.startswith("definition key vlm: unknown, expected environment")
    assert not any(name in problem.replace("key vlm:", "") for name in ("vllm", "nim", "tgi", "cmd"))


def test_an_unreadable_table_is_reported_once() -> None:
    assert problems({}, 'environment = "x"\nresource_slots = 1') == [
        "definition key environment: expected a table, found text",
        "definition key resource_slots: expected a table, found an integer",
    ]


def test_all_faults_at_once() -> None:
    found = problems(
        {"imagee": 1, "cluster_size": 0, "preopen_ports": [0], "cluster_mode": "grid", "bootstrap_script": "x" * 16385,
         "resource_slots": {"": 1, "cpu": "x"}, "environ": []},
        '[environment]\nimage = "no-tag"\narchitecture = "two words"\n[environ]\nA = 1',
    )  # fmt: skip
    assert [problem.split(":")[0] for problem in found] == [
        "request field imagee",
        "request field environ",
        "request field cluster_size",
        "request field preopen_ports",
        "request field cluster_mode",
        "request field bootstrap_script",
        'request field resource_slots.""',
        "request field resource_slots.cpu",
        "definition key environment.image",
        "definition key environment.architecture",
        "definition key environ.A",
    ]


@BOTH
@pytest.mark.parametrize("variant", list(RuntimeVariant))
def test_a_definition_for_every_variant_at_once(variant: RuntimeVariant, precedence: Precedence) -> None:
    definition = DEFINITION + "".join(
        f'[{name}.environment]\nimage = "cr.example.com/stable/{name}:1"\n[{name}.environ]\nWHO = "{name}"\n'
        for name in RuntimeVariant
    )
    request = {"model_definition_path": "model-definition.yaml", "runtime_variant": str(variant)}
    made = generate(request, definition, precedence, variant)
    assert made.spec.runtime_variant is variant
    assert made.spec.image == f"cr.example.com/stable/{variant}:1"
    assert made.spec.environ == {"WHO": variant.value}
    assert made.sources[("image",)] == f"definition:{variant}"


@BOTH
def test_custom_needs_a_model_definition(precedence: Precedence) -> None:
    assert problems(COMPLETE, DEFINITION, precedence, "custom") == [
        "request field model_definition_path: missing, and custom needs it"
    ]
    complete = COMPLETE | {"model_definition_path": "model-definition.yaml"}
    assert generate(complete, None, precedence, "custom").spec.model_definition_path == "model-definition.yaml"


@BOTH
@pytest.mark.parametrize("shmem", ["4g", "5g"])
def test_shmem_is_below_mem_whichever_document_each_comes_from(shmem: str, precedence: Precedence) -> None:
    (problem,) = problems(COMPLETE, f'[vllm.resource_opts]\nshmem = "{shmem}"', precedence)
    assert problem.startswith("definition key vllm.resource_opts.shmem with request field resource_slots.mem: shmem of")
    made = generate(COMPLETE, '[resource_opts]\nshmem = "3.9g"', precedence)
    assert made.spec.shmem == 3.9 * 1024**3 // 1
    assert made.spec.resource_slots["mem"] == 4 * 1024**3


@BOTH
def test_what_only_a_request_has_survives_every_merge(precedence: Precedence) -> None:
    own = {
        "startup_command": "serve --port 8000",
        "bootstrap_script": "#!/bin/sh\n",
        "preopen_ports": [8000, 22],
        "cluster_mode": "multi-node",
        "cluster_size": 3,
        "model_definition_path": "m.yaml",
    }
    spec = generate(own, DEFINITION + DEFINITION.replace("[", "[vllm."), precedence).spec
    assert {field: getattr(spec, field) for field in own} == own | {"preopen_ports": (8000, 22)}


@pytest.mark.parametrize("field", ["startup_command", "preopen_ports", "cluster_size", "runtime_variant"])
def test_a_definition_cannot_give_what_is_the_requests(field: str) -> None:
    (problem,) = problems(COMPLETE, f'{field} = "x"')
    assert problem.startswith(f"definition key {field}: unknown")


def test_a_draft_and_its_fields_generate_the_same() -> None:
    draft = RevisionDraft(**COMPLETE, preopen_ports=(1, 2))
    assert generate(draft, DEFINITION) == generate(COMPLETE | {"preopen_ports": [1, 2]}, DEFINITION)


def test_generate_cannot_be_overridden() -> None:
    with pytest.raises(TypeError, match="Sneaky defines generate"):
        type("Sneaky", (RevisionGenerator,), {"generate": lambda self: None})


def test_the_registry_has_every_variant() -> None:
    assert set(GENERATORS) == set(RuntimeVariant)
    assert {variant: generator.variant for variant, generator in GENERATORS.items()} == {v: v for v in RuntimeVariant}


def test_which_variant_is_asked_for() -> None:
    assert variant_of({"runtime_variant": "nim"}) is RuntimeVariant.NIM
    assert variant_of(RevisionDraft(runtime_variant=RuntimeVariant.CMD)) is RuntimeVariant.CMD
    assert variant_of({}, RuntimeVariant.VLLM) is RuntimeVariant.VLLM
    for request in ({}, {"runtime_variant": "vlm"}, {"runtime_variant": 5}):
        with pytest.raises(SpecError, match="request field runtime_variant: expected one of vllm"):
            variant_of(request)
    (problem,) = problems(COMPLETE | {"runtime_variant": "nim"})
    assert problem == "request field runtime_variant: differs from vllm, the variant asked for"


def test_environ_values_are_in_no_repr() -> None:
    draft = RevisionDraft(**COMPLETE, environ={"A": "s3cret"})
    assert "s3cret" not in repr(draft)
    assert "s3cret" not in repr(generate(draft))
    assert "s3cret" not in repr(ServiceDefinition.parse(b'[environ]\nA = "s3cret"'))


def test_cluster_modes_are_the_models() -> None:
    assert set(CLUSTER_MODES) == set(ClusterMode)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a = 1\nb = 2\na = 3\n", "given twice (at line 3, column 6)"),
        (b"[environ]\n[vllm]\n[environ]\n", "given twice (at line 3, column 9)"),
        (b"[environ]\nA = \"s3cret\"\nB = {C=1, C=2}\n", "given twice (at line 3"),
        (b"this is no TOML\n", "is not TOML: Expected '='"),
        (b"\x7fELF\x02\x01\x01", "is not TOML"),
        (b"A = 1\nB = \"\xff\"", "is not UTF-8 (line 2, byte 11)"),
        (b"A = " + b"9" * 5000, "out of range"),
        (b"A = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * (10 * 1024**2), "larger than 4194304 bytes"),
        (b"a." * 100_000 + b"a = 1", "a key has more than 32 parts"),
        (b"[vllm]\nx = {" + b"'a' . \"b\" ." * 50_000 + b" a = 1}", "a key has more than 32 parts"),
    ],
)  # fmt: skip
def test_files_that_are_no_definition(data: bytes, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        ServiceDefinition.parse(data)
    assert message in caught.value.message
    assert caught.value.message.startswith("service-definition.toml ")
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_byte_order_mark_and_line_endings(mark: bytes, ending: str) -> None:
    data = mark + DEFINITION.replace("\n", ending).encode()
    assert generate({}, data) == generate({}, DEFINITION)
