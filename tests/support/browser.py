"""Debian's chromium, driven by Playwright, and what its pages did."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser. Playwright's own builds are not used: CI installs the distribution's."""
    path = shutil.which("chromium")
    if path is None:
        reason = "chromium is not installed: `apt-get install chromium`, as .ci/run does"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@dataclass
class Watch:
    """Everything that a page should not have done."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def opened(browser: Browser, path: Path, fragment: str = "", **options: Any) -> Iterator[Page]:
    """A page of a file; at the end it has loaded nothing else, and neither failed nor broken its own policy."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(10_000)
    page, watch = context.new_page(), Watch()
    page.on("request", lambda request: watch.requests.append(request.url))
    page.on("console", lambda message: watch.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: watch.complaints.append(str(error)))
    page.on("dialog", lambda dialog: watch.complaints.append(dialog.message))
    page.goto(path.as_uri() + fragment)
    try:
        yield page
        assert watch.complaints == []
        assert {url.partition("#")[0] for url in watch.requests} == {path.as_uri()}
    finally:
        context.close()
