"""On paper nothing is cut, nothing folded away, and long tables reach their last row."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from proxyguard.report.sources import Sources
from report.browser.conftest import Opener, page_of
from report.synthetic import synthetic_sources

if TYPE_CHECKING:
    from playwright.sync_api import Page

A4_TEXT = 672
"""CSS pixels between the margins: 210 mm less twice 16 mm, at 96 in an inch."""

CUT = """() => [...document.querySelectorAll("main *, header *")].filter(e => {
  if (e.closest("svg, .pg-hide, script, noscript, [hidden]")) return false;
  const style = getComputedStyle(e), box = e.getBoundingClientRect();
  if (style.display === "none" || box.width === 0) return false;
  const hides = style.overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1;
  const tall = style.overflowY !== "visible" && e.scrollHeight > e.clientHeight + 1;
  return hides || tall || box.right > innerWidth + 1;
}).map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40))"""


def text_of(page: Page) -> list[str]:
    """Return the text of every page of paper."""
    from pypdf import PdfReader

    content = page.pdf(prefer_css_page_size=True, print_background=True)
    return [one.extract_text() for one in PdfReader(BytesIO(content)).pages]


def printed(opened: Opener, html: str) -> Page:
    """Return the page as it is laid out for paper."""
    page = opened(html, width=A4_TEXT)
    page.emulate_media(media="print")
    return page


@pytest.mark.parametrize("name", ["synthetic", "x" * 120])
def test_nothing_is_wider_than_the_paper(opened: Opener, name: str) -> None:
    sources = synthetic_sources(
        means={name: 0.2, "a mechanism with quite a long name of several words": 0.4}, R=30,
        name=name, requirements=[name, "calibration in the large", "cost of decisions"],
    )  # fmt: skip
    assert printed(opened, page_of(sources)).evaluate(CUT) == []


def test_six_requirements_fit_too(opened: Opener, thousand: Sources) -> None:
    assert printed(opened, page_of(thousand)).evaluate(CUT) == []


def test_a_table_that_does_not_wrap_would_be_noticed(opened: Opener, three: str) -> None:
    page = printed(opened, three)
    page.evaluate(
        "() => { document.querySelector('main td').style.cssText = 'white-space: nowrap';"
        " document.querySelector('main td').textContent = 'wide '.repeat(60); }"
    )
    assert page.evaluate(CUT) != []


@pytest.mark.whole
def test_a_thousand_rows_are_printed_to_the_last_with_their_header(
    opened: Opener, thousand: Sources
) -> None:
    pages = text_of(opened(page_of(thousand)))
    whole = "\n".join(pages)
    names = thousand.groups["careful"].releases
    for release in (names[0], names[499], names[-1]):
        assert f"\n{release}" in whole or f" {release}" in whole
    rows = [text for text in pages if "5 (limit 0.3)" in " ".join(text.split())]
    assert len(rows) > 10  # every page of the long table repeats its header
    assert thousand.signer in "".join(whole.split())


def test_what_is_folded_on_screen_is_open_on_paper(opened: Opener, three: str) -> None:
    words = "contamination by valid releases that score as violating"
    page = opened(three)
    assert page.locator("details").count() > 0
    assert not page.get_by_text(words).first.is_visible()
    assert words in " ".join(" ".join(text_of(page)).split())


def test_paper_is_light_in_a_dark_room_and_has_a_place_to_sign(opened: Opener, three: str) -> None:
    page = opened(three, color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.get_by_text("Name and role").is_visible()
    assert page.locator(".pg-controls").first.is_hidden()
