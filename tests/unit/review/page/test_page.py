"""The page as text: it holds what was found, escaped, and allows itself nothing but its own style and script."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from schema.review.page import render
from tests.support import page as made

PAGE = render(made.sample())


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text outside of style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def digest(element: str) -> str:
    (inside,) = re.findall(rf"<{element}>(.*?)</{element}>", PAGE, re.DOTALL)
    return "sha256-" + base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()


def test_the_policy_allows_this_style_and_this_script_and_nothing_else() -> None:
    policy = next(of["content"] for tag, of in Elements(PAGE).tags if of.get("http-equiv") == "Content-Security-Policy")
    assert policy == (
        f"default-src 'none'; style-src '{digest('style')}'; script-src '{digest('script')}'; "
        "base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("name", ["report.css", "report.js"])
def test_style_and_script_do_not_end_themselves(name: str) -> None:
    text = files("schema.review.page").joinpath(name).read_text()
    assert "</" not in text
    assert "<!--" not in text
    assert "\r" not in text


def test_nothing_is_loaded_and_nothing_is_styled_or_run_from_an_attribute() -> None:
    for tag, of in Elements(PAGE).tags:
        assert not {"src", "style", "srcset", "action"} & of.keys(), (tag, of)
        assert not [name for name in of if name.startswith("on")], (tag, of)
        assert of.get("href", "#").startswith("#"), (tag, of)
    assert not re.search(r"https?://|@import|url\((?!#)", PAGE)


def test_ids_are_unique_and_links_lead_somewhere() -> None:
    tags = Elements(PAGE).tags
    ids = [of["id"] for _, of in tags if "id" in of]
    assert len(ids) == len(set(ids))
    links = {of["href"][1:] for _, of in tags if "href" in of}
    assert {"r-b1", "r-b1-s3", "r-g7"} <= links
    assert links <= set(ids)
    assert {of["aria-labelledby"] for _, of in tags if "aria-labelledby" in of} <= set(ids)


def test_a_revision_s_id_cannot_be_taken_for_a_part_of_another() -> None:
    parts = [made.reviewed(made.trace(name, name, made.statement(1, "SELECT 1"))) for name in ("a", "a-s1", "a-title")]
    ids = [of["id"] for _, of in Elements(render(made.review(*parts))).tags if "id" in of]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "words",
    [
        "Review of 7 revisions",
        "PostgreSQL 18 · each as if deployed alone · sizes of production known",
        "error New column rewrites the table column-rewrite sessions is rewritten.",
        'op.add_column("app", sa.Column("token", sa.Uuid, nullable=True))',
        "sessions is rewritten. statement 3, line 23",
        "public.sessions ACCESS EXCLUSIVE statements 3 to 4; blocks reads and writes; 1,250,000 rows, 3.0 GiB; about",
        "Transaction 2, one statement committed by itself",
        "lock_timeout none, statement_timeout 600 s",
        "Accepted because nothing has read it since release 25.3",
        "migrations/versions/d4.py ; stands on b2 and c3",
        "The downgrade refuses: RuntimeError: regions cannot be told again",
        "The downgrade ends in another catalog: column public.kernels.last_stat is missing.",
        "The upgrade fails when it is run again: it is there",
        "The downgrade loses what 2 columns of public.kernels, public.agents held.",
        "A merge: there is nothing to take down.",
        "It could not be run to its end. statement 1 at line 21 failed: division by zero",
        "its parents cannot be run: f6",
        "No rows could be made for public.images : its CHECK refuses whatever was tried.",
        "the role reader was made on the scratch server",
    ],
)
def test_what_was_found_is_said(words: str) -> None:
    assert words in Elements(PAGE).text


def test_a_strong_lock_differs_by_more_than_its_colour() -> None:
    heights = dict(re.findall(r'<li class="lock (\w+)".*?<rect [^>]*height="(\d+)"', PAGE, re.DOTALL))
    assert heights == {"weak": "6", "strong": "16", "exclusive": "16"}


def test_sql_keeps_its_lines_and_their_indentation() -> None:
    assert "<code>ALTER TABLE kernels\n    ADD COLUMN asked_at timestamptz,\n    ADD COLUMN why text" in PAGE
    one = made.trace("a", "A", made.statement(1, "\n    SELECT 1\n      + 2\n    "))
    assert '<pre class="sql"><code>SELECT 1\n  + 2</code>' in render(made.review(made.reviewed(one)))


def test_bars_stand_over_their_statements() -> None:
    bars = re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"', PAGE)
    assert bars[:4] == [("20.0", "20.0"), ("40.0", "40.0"), ("60.0", "20.0"), ("80.0", "20.0")]


def test_times_and_places_of_this_machine_can_be_left_out() -> None:
    assert "On the scratch server" in PAGE
    text = render(made.sample(), times=False)
    assert "On the scratch server" not in text
    assert not re.search(r"\d ms\b", text)
    assert str(Path.cwd()) not in text
    assert text == render(made.sample(), times=False)


def test_whatever_a_revision_names_stays_text(tmp_path: Path) -> None:
    text = render(made.hostile(tmp_path / "x.py"))
    found = Elements(text)
    plain, scripts = Elements(PAGE), [tag for tag, _ in found.tags if tag in ("script", "style", "img")]
    assert scripts == ["style", "script"]
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in plain.tags} | {"details"}
    assert {name for _, of in found.tags for name in of} <= {name for _, of in plain.tags for name in of}
    assert text.count(html.escape(made.ATTACK, quote=False).partition("&gt;")[0]) > 15


def test_the_author_s_own_words_without_the_lines_of_alembic(tmp_path: Path) -> None:
    path = tmp_path / "revision.py"
    path.write_text('"""Title.\n\nWhy: because.\n\nRevision ID: a\nRevises:\nCreate Date: 2025\n"""\n')
    text = Elements(render(made.review(made.reviewed(made.trace("a", "Title", path=path))))).text
    assert "What its author says Why: because." in text
    assert "Revision ID" not in text
    path.write_text("def broken(:\n")
    assert "What its author says" not in render(made.review(made.reviewed(made.trace("a", "Title", path=path))))


def test_an_empty_review() -> None:
    text = Elements(render(made.review())).text
    assert "Review of 0 revisions" in text
    assert "No revision was chosen, so none was reviewed." in text
