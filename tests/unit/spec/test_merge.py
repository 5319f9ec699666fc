"""Laws of the merge, on generated documents."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schema.spec.definition import ServiceDefinition
from schema.spec.draft import RuntimeVariant
from schema.spec.generator import GENERATORS, InvalidRevisionError
from schema.spec.merge import Entry, Precedence, merge, place_of, toml_key
from schema.spec.problems import Problem

SOURCES = ["request", "definition", "definition:vllm"]
PATHS = [("image",), ("architecture",), ("resource_slots", "cpu"), ("environ", "A"), ("environ", "B")]
LAYERS = st.dictionaries(st.sampled_from(PATHS), st.builds(Entry, st.integers(), st.sampled_from(SOURCES)))

VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2))
TABLES = st.dictionaries(st.sampled_from(["cpu", "mem", "shmem", "A", "B-"]), VALUES, max_size=4)
SECTIONS = st.dictionaries(
    st.sampled_from(["environment", "resource_slots", "resource_opts", "environ", "imaeg"]), st.one_of(TABLES, VALUES)
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "image": st.one_of(VALUES, st.just("a/b/c:d")),
        "architecture": st.one_of(VALUES, st.just("x86_64")),
        "resource_slots": st.one_of(VALUES, TABLES),
        "resource_opts": TABLES,
        "environ": TABLES,
        "cluster_size": VALUES,
        "preopen_ports": st.lists(st.integers(), max_size=3),
        "nonsense": VALUES,
    },
)


@given(LAYERS, LAYERS, LAYERS)
def test_merge_is_associative_and_changes_nothing(a: Any, b: Any, c: Any) -> None:
    before = copy.deepcopy((a, b, c))
    assert merge(merge(a, b), c) == merge(a, merge(b, c)) == merge(a, b, c)
    assert (a, b, c) == before


@given(LAYERS, LAYERS)
def test_the_last_layer_wins_value_by_value(a: Any, b: Any) -> None:
    merged = merge(a, b)
    assert set(merged) == set(a) | set(b)
    assert all(merged[path] == (b[path] if path in b else a[path]) for path in merged)
    assert merge(a, {}) == a == merge({}, a) == merge(a, a)


@given(REQUESTS, SECTIONS, st.one_of(SECTIONS, VALUES), st.sampled_from(Precedence), st.sampled_from(RuntimeVariant))
def test_generating_never_changes_its_inputs_and_fails_with_problems_only(
    request: Any, root: Any, section: Any, precedence: Precedence, variant: RuntimeVariant
) -> None:
    definition = ServiceDefinition(root=root, sections={variant: section})
    before = copy.deepcopy((request, dict(definition.root), dict(definition.sections)))
    problems: tuple[Problem, ...] = ()
    spec = None
    try:
        spec = GENERATORS[variant].generate(request, definition, precedence).spec
    except InvalidRevisionError as error:
        problems = error.problems
    assert bool(problems) is (spec is None)
    others = {name.value for name in RuntimeVariant} - {variant.value}
    assert not any(f"definition key {other}" in str(problem) for problem in problems for other in others)
    assert (request, dict(definition.root), dict(definition.sections)) == before


def test_places_are_written_as_toml_keys() -> None:
    assert place_of(("resource_slots", "cuda.device"), "definition:vllm") == (
        'definition key vllm.resource_slots."cuda.device"'
    )
    assert place_of(("image",), "definition:huggingface-tgi") == "definition key huggingface-tgi.environment.image"
    assert place_of(("image",), "request") == "request field image"
    assert toml_key('a"b\\\n') == '"a\\"b\\\\\\u000a"'
    assert toml_key("A" * 65) == "A" * 64 + "..."
    assert toml_key("-") == "-"
    assert toml_key("") == '""'
