"""Each rule finds its bad example and is silent about its good one."""

from pathlib import Path

import pytest

from schema.review.finding import Example, Rule
from schema.review.rules import RULES
from tests.conftest import Server
from tests.support.review import found, reviewed, write

NAMING = {"ck": "ck_%(table_name)s_%(constraint_name)s"}
NEEDS_REVERSE = {"invalid-index", "not-rerunnable", "not-reversible", "downgrade-loses-data"}


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
@pytest.mark.parametrize("kind", ["bad", "good"])
def test_example(rule: Rule, kind: str, server: Server, tmp_path: Path) -> None:
    example: Example = rule.bad if kind == "bad" else rule.good
    project = write(tmp_path, example, naming=NAMING if rule.id == "name-unconventional" else None)
    asked = {"reverse": rule.id in NEEDS_REVERSE, "offline": rule.id == "needs-connection"}
    result = reviewed(project, server.url("postgres"), **asked)
    names = found(result)
    assert (rule.id in names) is (kind == "bad"), (names, result.faults, [f.message for f in result.findings])
    if kind == "good":
        assert not result.faults
    assert not result.unfilled
