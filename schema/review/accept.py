"""`# schemactl: accept RULE -- reason` in a revision, and the settings of reviews in pyproject.toml."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schema.errors import ConfigError
from schema.review.finding import Finding, Severity

_COMMENT = re.compile(r"#\s*schemactl:\s*accept\s+(?P<rule>[\w-]+)(?:\s+--\s*(?P<reason>\S.*))?")


@dataclass(frozen=True)
class Acceptance:
    """One comment: which rule, why, and the lines it covers."""

    rule: str
    reason: str
    """Empty when none is given, which is a fault."""
    line: int
    first: int
    last: int
    whole_file: bool

    def covers(self, finding: Finding) -> bool:
        """Whether a finding is of this rule and within these lines, or the comment stands outside of functions."""
        if finding.rule.id != self.rule:
            return False
        return self.whole_file or (finding.line is not None and self.first <= finding.line <= self.last)


def read_acceptances(path: Path) -> list[Acceptance]:
    """The comments of a revision file.

    One inside a function covers the statement that it stands in or above; one outside covers the whole file.
    """
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        match = _COMMENT.fullmatch(token.string.strip()) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        line = token.start[0]
        inside = next((node for node in functions if node.lineno <= line <= (node.end_lineno or 0)), None)
        first, last = _covered(inside, line) if inside else (0, 0)
        found.append(Acceptance(match["rule"], match["reason"] or "", line, first, last, inside is None))
    return found


def _covered(function: ast.FunctionDef, line: int) -> tuple[int, int]:
    simple = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    spans = sorted((node.lineno, node.end_lineno or node.lineno) for node in simple)
    around = [span for span in spans if span[0] <= line <= span[1]]
    below = [span for span in spans if span[0] > line]
    return (around or below or [(line, line)])[0]


@dataclass(frozen=True)
class Settings:
    """`[tool.schemactl.review]`."""

    threshold: Severity = Severity.WARNING
    """Findings from this severity on make the command end with 3."""
    disabled: frozenset[str] = frozenset()
    offline: bool = False
    """Each revision must be there as an SQL script too."""


def read_settings(ini: Path, rules: Sequence[str]) -> Settings:
    """Read the settings of the pyproject.toml beside the ini or above it.

    Raises:
        ConfigError: the file, a key or a value cannot be read.
    """
    folder = ini.absolute().parent
    places = (place / "pyproject.toml" for place in (folder, *folder.parents))
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return Settings()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    table: Any = data.get("tool", {}).get("schemactl", {}).get("review", {})
    where = f"[tool.schemactl.review] in {path}"
    if not isinstance(table, dict) or not {"threshold", "disable", "offline"}.issuperset(table):
        raise ConfigError(f"{where} has other keys than threshold, disable and offline")
    threshold, disabled = table.get("threshold", "warning"), table.get("disable", [])
    if threshold not in {str(each) for each in Severity}:
        raise ConfigError(f"threshold of {where} is {threshold!r}", hint="Write note, warning or error.")
    if not isinstance(disabled, list) or not set(disabled) <= set(rules):
        unknown = sorted(set(map(str, disabled)) - set(rules)) if isinstance(disabled, list) else [disabled]
        raise ConfigError(f"disable of {where} names no rule: {unknown}", hint="docs/review-rules.md lists them.")
    offline = table.get("offline", False)
    if not isinstance(offline, bool):
        raise ConfigError(f"offline of {where} is {offline!r}", hint="Write true or false.")
    return Settings(Severity[threshold.upper()], frozenset(disabled), offline)
