"""axe finds nothing serious, in light and dark, on a desk and on a phone."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from proxyguard.report.compare import Compared, compare
from proxyguard.report.content import build_report
from proxyguard.report.html import comparison_page
from report.browser.conftest import Opener, page_of
from report.synthetic import exposed_sources, synthetic_sources

if TYPE_CHECKING:
    from playwright.sync_api import Page

WINDOWS = [(1280, "dark"), (1280, "light"), (390, "light")]


def serious(page: Page) -> list[str]:
    """Return what axe calls serious or critical, each with the element it is about."""
    script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [
        f"{one['id']}: {node['html'][:120]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_axe_finds_nothing_serious_in_the_report(opened: Opener, width: int, scheme: str) -> None:
    # Few rows: axe looks at each of them, and they are alike.
    page = opened(page_of(synthetic_sources(R=4)), width=width, color_scheme=scheme)
    page.locator("details").evaluate_all("all => all.forEach(e => { e.open = true; })")
    assert serious(page) == []


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_axe_finds_nothing_serious_in_a_report_on_exposure(
    opened: Opener, width: int, scheme: str
) -> None:
    page = opened(page_of(exposed_sources()), width=width, color_scheme=scheme)
    assert page.locator("section[aria-labelledby=exposure] svg").count() > 10
    assert serious(page) == []
    # Nothing but tables, which scroll by themselves and by the keyboard, is wider than the window.
    assert page.evaluate("document.documentElement.scrollWidth") == width
    regions = page.locator("section[aria-labelledby=exposure] .pg-wide")
    assert regions.count() == 2
    regions.first.focus()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "What attacks tell"


def test_axe_finds_nothing_serious_in_a_comparison(opened: Opener) -> None:
    sources = synthetic_sources(R=5)
    one = Compared(place="a", report=build_report(sources), sources=sources)
    assert serious(opened(comparison_page(compare([one, one])), width=390)) == []


def test_axe_would_notice_faint_words_and_a_nameless_picture(opened: Opener) -> None:
    page = opened(page_of(synthetic_sources(means={"careful": 0.2}, R=3)), color_scheme="light")
    page.evaluate(
        "() => { document.querySelector('h1').style.color = '#bbbbbb';"
        " document.querySelector('svg[role=img]').removeAttribute('aria-label'); }"
    )
    found = " ".join(serious(page))
    assert "color-contrast" in found
    assert "svg-img-alt" in found


def test_every_picture_says_what_it_shows(opened: Opener, three: str) -> None:
    page = opened(three)
    spoken = page.locator("svg[role=img]").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )
    assert len(spoken) == page.locator("svg:not([aria-hidden])").count()
    assert all(len(words) > 40 for words in spoken)
    assert any("of 30 estimates are below the limit 0.3" in words for words in spoken)


def test_motion_is_not_forced_on_those_who_asked_for_none(opened: Opener, three: str) -> None:
    calm = opened(three, reduced_motion="reduce")
    assert calm.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
