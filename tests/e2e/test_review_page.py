"""The HTML report of a review, in a real browser."""

import html
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from schema.review.page import render
from tests.support import page as made
from tests.support.browser import chromium, opened

ROOT = Path(__file__).parents[2]
Open = Callable[..., AbstractContextManager[Page]]
ALL = ["b1", "b2", "c3", "d4", "e5", "f6", "g7"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages, written once."""
    folder = tmp_path_factory.mktemp("pages")
    reviews = {"sample": made.sample(), "wide": made.wide(), "long": made.long(500)}
    reviews["hostile"] = made.hostile(folder / "hostile.py")
    paths = {name: folder / f"{name}.html" for name in reviews}
    for name, review in reviews.items():
        paths[name].write_text(render(review), encoding="utf-8")
    return {**paths, "example": ROOT / "docs/examples/review.html"}


@pytest.fixture
def show(browser: Browser, files: dict[str, Path]) -> Open:
    """Open one of the pages."""
    return lambda name="sample", fragment="", **options: opened(browser, files[name], fragment, **options)


def visible(page: Page) -> list[str]:
    """Revisions that are shown; the history shows the same ones."""
    found = page.locator("article.revision:visible").evaluate_all("all => all.map(each => each.id.slice(2))")
    linked = page.locator(".history a:visible").evaluate_all("all => all.map(each => each.hash.slice(3))")
    assert found == linked
    return [str(each) for each in found]


def rules(page: Page) -> list[str]:
    """Rules of the findings that are shown."""
    found = page.locator(".finding:visible").evaluate_all("all => all.map(each => each.dataset.rule)")
    return [str(each) for each in found]


def only(page: Page, *wanted: str) -> None:
    """Leave these boxes checked."""
    for name in ("Errors", "Warnings", "Notes", "Accepted", "Nothing found"):
        page.get_by_role("checkbox", name=name).set_checked(name in wanted)


class TestFilters:
    def test_without_a_filter_everything_is_there(self, show: Open) -> None:
        with show() as page:
            assert visible(page) == ALL
            assert rules(page) == ["column-rewrite", "no-lock-timeout", "index-blocking", "object-dropped"]
            # The two that could not be run are shown with the errors.
            assert page.locator(".filters .count").all_text_contents() == ["3", "1", "1", "1", "2"]
            expect(page.get_by_role("status")).to_have_text("Showing 7 of 7 revisions, 4 of 4 findings.")

    @pytest.mark.parametrize(
        ("boxes", "revisions", "findings"),
        [
            (["Errors"], ["b1", "f6", "g7"], ["column-rewrite"]),
            (["Warnings"], ["b2"], ["index-blocking"]),
            (["Notes"], ["b1"], ["no-lock-timeout"]),
            (["Accepted"], ["e5"], ["object-dropped"]),
            (["Nothing found"], ["c3", "d4"], []),
            (["Warnings", "Accepted"], ["b2", "e5"], ["index-blocking", "object-dropped"]),
        ],
    )
    def test_by_severity(self, show: Open, boxes: list[str], revisions: list[str], findings: list[str]) -> None:
        with show() as page:
            only(page, *boxes)
            assert visible(page) == revisions
            assert rules(page) == findings
            count = f"Showing {len(revisions)} of 7 revisions, {len(findings)} of 4 findings."
            expect(page.get_by_role("status")).to_have_text(count)

    def test_a_heading_goes_with_its_last_finding(self, show: Open) -> None:
        with show() as page:
            headings = page.locator("#r-e5 h3:visible")
            assert "Accepted" in headings.all_text_contents()
            page.get_by_label("Table").select_option("public.sessions")
            page.get_by_label("Table").select_option("public.kernels")
            assert "Findings" not in page.locator("#r-b1 h3:visible").all_text_contents()

    def test_by_table(self, show: Open) -> None:
        with show() as page:
            page.get_by_label("Table").select_option("public.kernels")
            assert visible(page) == ["b1", "b2", "e5"]
            assert rules(page) == ["index-blocking", "object-dropped"]
            assert page.locator("#r-b1 .lock.meant .name").all_text_contents() == ["public.kernels"]
            only(page, "Errors", "Warnings")
            assert visible(page) == ["b2"]

    def test_a_finding_without_a_table_is_about_those_of_its_statement(self, show: Open) -> None:
        with show() as page:
            page.get_by_label("Table").select_option("public.sessions")
            assert visible(page) == ["b1"]
            assert rules(page) == ["column-rewrite", "no-lock-timeout"]

    def test_by_text_of_sql_and_titles_whatever_the_case(self, show: Open) -> None:
        with show() as page:
            page.get_by_role("searchbox", name="Text").fill("REGION")
            assert visible(page) == ["c3"]
            page.get_by_role("searchbox", name="Text").fill("join the")
            assert visible(page) == ["d4"]

    def test_what_matches_nothing_says_how_to_go_back(self, show: Open) -> None:
        with show() as page:
            page.get_by_role("searchbox").fill("no such thing")
            assert visible(page) == []
            expect(page.get_by_role("status")).to_contain_text("Showing 0 of 7 revisions, 0 of 4 findings. Nothing")
            page.get_by_role("button", name="Show everything").click()
            expect(page.get_by_role("status")).to_have_text("Showing 7 of 7 revisions, 4 of 4 findings.")
            assert visible(page) == ALL
            assert page.evaluate("location.hash") == ""


class TestAddress:
    def test_it_keeps_the_filters_for_another_reader(self, show: Open) -> None:
        with show() as page:
            only(page, "Warnings", "Accepted")
            page.get_by_label("Table").select_option("public.kernels")
            page.get_by_role("searchbox").fill("kernels lose")
            fragment = page.evaluate("location.hash")
        assert fragment == "#?show=warning%2Caccepted&table=public.kernels&text=kernels+lose"
        with show("sample", fragment) as page:
            assert visible(page) == ["e5"]
            assert page.get_by_role("checkbox", name="Errors").is_checked() is False
            assert page.get_by_role("checkbox", name="Accepted").is_checked() is True
            assert page.get_by_label("Table").input_value() == "public.kernels"
            assert page.get_by_role("searchbox").input_value() == "kernels lose"

    def test_back_and_forward(self, show: Open) -> None:
        with show("sample", "#?show=error") as page:
            page.evaluate("location.hash = '#?show=warning'")
            page.wait_for_function("document.querySelector('#r-b1').hidden")
            assert visible(page) == ["b2"]
            page.go_back()
            page.wait_for_function("!document.querySelector('#r-b1').hidden")
            assert visible(page) == ["b1", "f6", "g7"]

    def test_a_link_to_something_hidden_shows_it(self, show: Open) -> None:
        with show("sample", "#?show=error") as page:
            page.evaluate("location.hash = '#r-c3'")
            expect(page.locator("#r-c3")).to_be_visible()
            assert visible(page) == ALL
            expect(page.locator("#r-c3 h2")).to_be_in_viewport()

    def test_a_link_to_a_statement_opens_it_and_keeps_the_filters(self, show: Open) -> None:
        with show("sample", "#?show=error") as page:
            page.locator("#r-b1-s3 summary").click()
            expect(page.locator("#r-b1-s3 .sql")).to_be_hidden()
            page.get_by_role("link", name="statement 3").click()
            expect(page.locator("#r-b1-s3 .sql")).to_be_visible()
            assert visible(page) == ["b1", "f6", "g7"]
            assert page.evaluate("location.hash") == "#?show=error&at=r-b1-s3"

    @pytest.mark.parametrize("fragment", ["#nothing", "#%", "#?table=gone", "#?at=gone&table=%E0%A4%A", "#?"])
    def test_a_broken_one_shows_everything(self, show: Open, fragment: str) -> None:
        with show("sample", fragment) as page:
            assert visible(page) == ALL


FOCUS = """() => {
    const of = document.activeElement, style = getComputedStyle(of), box = of.getBoundingClientRect();
    return {
        name: of === document.body ? "" : of.tagName + (of.id && "#" + of.id) + " " +
            (of.value ?? "") + " " + (of.getAttribute("href") ?? "") + of.textContent.trim().slice(0, 40),
        outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
        seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0,
    };
}"""
CONTROLS = "a[href], button, input, select, summary"


class TestKeyboard:
    def test_tab_reaches_every_control_and_it_shows(self, show: Open) -> None:
        with show() as page:
            wanted = page.locator(CONTROLS).evaluate_all("all => all.filter(each => each.checkVisibility()).length")
            reached = []
            for _ in range(wanted):
                page.keyboard.press("Tab")
                reached.append(page.evaluate(FOCUS))
            assert all(each["name"] and each["outline"] >= 2 and each["seen"] for each in reached), reached
            kinds = [each["name"].partition(" ")[0] for each in reached]
            assert (kinds[0], kinds.count("INPUT"), kinds.count("SELECT"), kinds.count("BUTTON")) == ("A", 6, 1, 1)
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement === document.body")

    def test_enter_and_space(self, show: Open) -> None:
        with show() as page:
            page.keyboard.press("Tab")
            expect(page.get_by_role("link", name="Skip to the revisions")).to_be_in_viewport()
            page.keyboard.press("Enter")
            assert page.evaluate("document.activeElement.id") == "revisions"
            page.get_by_role("checkbox", name="Errors").focus()
            page.keyboard.press("Space")
            assert "b1" in visible(page)
            assert rules(page)[0] == "no-lock-timeout"
            page.keyboard.press("Tab")
            page.keyboard.press("Space")
            assert "b2" not in visible(page)
            page.get_by_role("searchbox").focus()
            page.keyboard.type("kernels")
            page.keyboard.press("Enter")
            assert page.evaluate("location.hash").endswith("text=kernels")
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            expect(page.get_by_role("status")).to_have_text("Showing 7 of 7 revisions, 4 of 4 findings.")
            page.locator("#r-b1-s1 summary").focus()
            page.keyboard.press("Enter")
            expect(page.locator("#r-b1-s1 .sql")).to_be_visible()
            page.keyboard.press("Space")
            expect(page.locator("#r-b1-s1 .sql")).to_be_hidden()


WIDER = """() => [...document.querySelectorAll("body *")].filter(each => {
    const box = each.getBoundingClientRect();
    if (!each.checkVisibility({contentVisibilityAuto: false}) || each.closest("svg") || !box.width) return false;
    return box.right > document.documentElement.clientWidth + 0.5 || box.left < -0.5;
}).map(each => each.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
@pytest.mark.parametrize("name", ["sample", "hostile", "wide", "example"])
def test_nothing_overflows(show: Open, name: str, width: int) -> None:
    with show(name, viewport={"width": width, "height": 800}) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(WIDER) == []


# Ratios of WCAG 2: of each element that has text of its own, on the nearest background that is not transparent.
CONTRAST = """() => {
    const luminance = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(each => each / 255)
            .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (of) => {
        for (; of; of = of.parentElement) {
            const colour = getComputedStyle(of).backgroundColor;
            if (colour !== "rgba(0, 0, 0, 0)") return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const found = [];
    for (const each of document.querySelectorAll("body *")) {
        const own = [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (!own || each.matches("script, option") || !each.checkVisibility()) continue;
        const style = getComputedStyle(each);
        const pair = [luminance(each.closest("svg") ? style.fill : style.color), luminance(ground(each))];
        const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        found.push([Math.round(ratio * 100) / 100, each.outerHTML.slice(0, 80)]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(show: Open, scheme: Any) -> None:
    with show(color_scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(251, 250, 247)", "dark": "rgb(22, 21, 19)"}[scheme]
        found = page.evaluate(CONTRAST)
        assert len(found) > 150
        assert [each for each in found if each[0] < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_print_all_is_open_on_white_and_no_control_is_left(show: Open, scheme: Any) -> None:
    with show(color_scheme=scheme) as page:
        expect(page.locator("#r-b1-s1 .sql")).to_be_hidden()
        page.emulate_media(media="print", color_scheme=scheme)
        for sql in page.locator(".sql").all():
            expect(sql).to_be_visible()
        heights = page.locator("details > :not(summary)").evaluate_all(
            "all => all.map(each => each.getBoundingClientRect().height)"
        )
        assert min(heights) > 10
        assert page.locator(":is(form, input, select, button, .skip):visible").count() == 0
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert [each for each in page.evaluate(CONTRAST) if each[0] < 4.5] == []


def test_printing_opens_what_was_closed_and_closes_it_again(show: Open) -> None:
    with show() as page:
        state = "[...document.querySelectorAll('details')].map(each => each.open)"
        before = page.evaluate(state)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert set(before) == {True, False}
        assert set(page.evaluate(state)) == {True}
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(state) == before


def test_what_is_printed_of_a_filtered_page_says_so(show: Open) -> None:
    with show("sample", "#?show=warning") as page:
        page.emulate_media(media="print")
        expect(page.get_by_text("Showing 1 of 7 revisions, 1 of 4 findings.")).to_be_visible()
        assert visible(page) == ["b2"]


def test_markup_in_names_messages_and_docstrings_does_nothing(show: Open) -> None:
    with show("hostile") as page:
        page.wait_for_timeout(200)
        assert page.title() == "Review of 2 revisions"
        assert page.evaluate("document.querySelectorAll('img, script, style').length") == 2
        assert page.locator(".revision h2").all_text_contents() == [made.ATTACK, made.ATTACK]
        assert page.locator(".docstring pre").text_content() == made.ATTACK.replace("'", "`")
        table = page.get_by_label("Table")
        table.select_option(index=1)
        assert made.ATTACK in table.input_value()
        assert page.locator("article.revision:visible").count() == 1
        page.reload()
        assert made.ATTACK in page.get_by_label("Table").input_value()
        assert page.title() == "Review of 2 revisions"


def test_filters_work_in_a_frame_without_an_address(browser: Browser, files: dict[str, Path], tmp_path: Path) -> None:
    outer = tmp_path / "outer.html"
    inner = html.escape(files["sample"].read_text(encoding="utf-8"))
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{inner}"></iframe>'
    outer.write_text(f'<meta charset="utf-8">{frame}', encoding="utf-8")
    with opened(browser, outer) as page:
        shown = page.frame_locator("iframe")
        shown.get_by_role("checkbox", name="Errors").click()
        expect(shown.get_by_role("status")).to_contain_text("3 of 4 findings")


def test_without_scripts_it_is_all_there(show: Open) -> None:
    with show(java_script_enabled=False) as page:
        assert page.locator("article.revision").count() == len(ALL)
        expect(page.locator("#r-g7")).to_be_visible()
        expect(page.get_by_role("checkbox")).to_have_count(0)
        expect(page.get_by_role("status")).to_have_count(0)
        page.locator("#r-b1-s1 summary").click()
        expect(page.locator("#r-b1-s1 .sql")).to_be_visible()


def test_headings_and_landmarks_have_names(show: Open) -> None:
    with show() as page:
        levels = page.locator("h1, h2, h3, h4, h5, h6").evaluate_all("all => all.map(each => Number(each.tagName[1]))")
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        expect(page.get_by_role("navigation", name="History")).to_be_visible()
        expect(page.get_by_role("search", name="Filter the revisions")).to_be_visible()
        expect(page.get_by_role("main")).to_be_visible()
        expect(page.get_by_role("article", name="Sessions know when they were asked for")).to_be_visible()
        expect(page.get_by_role("group", name="Show")).to_be_visible()
        bare = "svg:not([aria-hidden=true], [aria-hidden=true] *)"
        assert page.locator(bare).count() == 0


def test_five_hundred_revisions_are_filtered_at_once(show: Open) -> None:
    with show("long") as page:
        expect(page.get_by_role("status")).to_have_text("Showing 500 of 500 revisions, 50 of 50 findings.")
        took = page.evaluate("""() => {
            const box = document.querySelector("[value=clean]"), text = document.querySelector("[name=text]");
            const start = performance.now();
            box.click();
            text.value = "number 30 of";
            text.dispatchEvent(new Event("input", {bubbles: true}));
            document.body.offsetHeight;
            return performance.now() - start;
        }""")
        assert visible(page) == ["00000000001e"]
        assert took < 2000
