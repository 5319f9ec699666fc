"""What is wrong with a spec: every fault at once, each with its field, its place and what was expected."""

from collections.abc import Iterable
from dataclasses import dataclass

from schema.errors import InvalidValueError


@dataclass(frozen=True)
class Problem:
    """One fault. None of its texts ever holds an environment value."""

    field: str
    """The field, as a request names it: `image`, `resource_slots.cpu`."""
    place: str
    """Where the value stands, or could have stood: `request field image`, `definition key vllm.environ.A-B`."""
    message: str
    """What was found and what was expected."""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class SpecError(InvalidValueError):
    """A spec has faults; `problems` holds all of them."""

    default_hint = "docs/service-definition.md describes every field."

    def __init__(self, problems: Iterable[Problem], *, subject: str = "The spec", hint: str | None = None) -> None:
        self.problems = tuple(problems)
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"{subject} has {count}: " + "; ".join(map(str, self.problems)), hint=hint)
