"""A review as one HTML file that loads nothing: it can be mailed, kept as an artifact, printed."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from schema.review.page.view import View
from schema.review.review import Review


def render(review: Review, *, times: bool = True) -> str:
    """The page.

    Everything in it is escaped, and its Content-Security-Policy runs and loads nothing but its own style and script.

    Args:
        review: what was found.
        times: say how long each statement took on the scratch server, which no two reviews agree on.
    """
    style, script = _file("report.css"), _file("report.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_file("report.html"))
    # Ours, and the digests are of exactly these characters.
    return template.render(view=View(review, times=times), policy=policy, style=Markup(style), script=Markup(script))  # noqa: S704


@cache
def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
