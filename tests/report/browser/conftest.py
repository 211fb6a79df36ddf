"""A real browser, once for every file; without one these tests say so and are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proxyguard.report.content import build_report
from proxyguard.report.html import to_html
from proxyguard.report.sources import Sources
from report.browser.chromium import chromium, missing
from report.synthetic import advice_of, synthetic_sources

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's chromium, headless, asking nothing of the network by itself."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with chromium() as one:
        yield one


class Opener:
    """Opens pages from files and hears whatever they ask for or complain about."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self._contexts: list[BrowserContext] = []
        self.heard: list[str] = []

    def __call__(self, html: str, *, width: int = 1280, height: int = 900, **options: Any) -> Page:
        """Return the page in a browser window of this size."""
        path = self._folder / f"page-{len(self._contexts)}.html"
        path.write_text(html, encoding="utf-8")
        viewport: Any = {"width": width, "height": height}
        context = self._browser.new_context(viewport=viewport, **options)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.heard.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.heard.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self.heard.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        self.heard.remove(f"request: {path.as_uri()}")
        return page

    def forget(self) -> list[str]:
        """Return what was heard, for a test that provoked it."""
        said, self.heard = self.heard, []
        return said

    def close(self) -> None:
        """Close every window."""
        for context in self._contexts:
            context.close()

    def _dialog(self, dialog: Dialog) -> None:
        self.heard.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Open a page from a file; whatever it asks for or complains about fails the test."""
    opener = Opener(browser, tmp_path)
    yield opener
    opener.close()
    assert opener.heard == []


def page_of(sources: Sources) -> str:
    """Return the page of a record."""
    return to_html(build_report(sources), sources)


@pytest.fixture(scope="session")
def three() -> str:
    """A page with all three verdicts and 30 releases of each mechanism."""
    return page_of(synthetic_sources(R=30, advice=[ADVICE]))


@pytest.fixture(scope="session")
def thousand() -> Sources:
    """The record of 1,000 releases under six requirements."""
    names = [f"requirement {j}" for j in range(6)]
    return synthetic_sources(R=1000, n=300, means={"careful": 0.2}, requirements=names)


ADVICE = advice_of("hasty", "About 4,000 records would do.")
