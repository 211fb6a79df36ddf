"""The page opens without a request or a complaint, whatever its text says."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.printable import printable
from proxyguard.report.compare import Compared, compare
from proxyguard.report.content import build_report
from proxyguard.report.html import comparison_page
from proxyguard.report.sources import Sources
from report.browser.conftest import Opener, page_of
from report.synthetic import synthetic_sources

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    '"><svg onload=alert(3)>',
    "{{ 7 * 7 }} {% raw %}",
    "&lt;b&gt; <!-- <script> --> ]]>",
    "line\u2028separator\u2029and $\\alpha$ \u202e right to left",
    "javascript:alert(4)",
]
"""Names that end elements, comments, attributes and strings, or start scripts and templates."""


def test_the_page_shows_the_three_verdicts_and_asks_for_nothing(opened: Opener, three: str) -> None:
    page = opened(three)
    words = page.locator(".pg-verdict .pg-word").all_inner_texts()
    assert [word.strip().upper() for word in words] == ["VALIDATED", "UNRESOLVED", "VIOLATION"]
    assert page.locator(".pg-verdict svg[role=img]").count() == 3
    assert page.locator(".pg-advice").inner_text().endswith("About 4,000 records would do.")


def test_the_policy_refuses_a_style_and_a_script_that_are_not_the_page_s_own(
    opened: Opener, three: str
) -> None:
    added = "<style>h1 { color: red }</style><script>document.title = 'taken'</script></main>"
    page = opened(three.replace("</main>", added))
    assert page.locator("h1").evaluate("e => getComputedStyle(e).color") != "rgb(255, 0, 0)"
    assert page.title() != "taken"
    said = opened.forget()
    assert len(said) == 2
    assert all("Content Security Policy" in one for one in said)


def test_hostile_names_stay_text(opened: Opener) -> None:
    sources = synthetic_sources(
        means={HOSTILE[0]: 0.2, HOSTILE[1]: 0.4}, R=7, releases=HOSTILE,
        requirements=[HOSTILE[1], HOSTILE[2], HOSTILE[5]],
        name=HOSTILE[1], purpose=HOSTILE[0],
    )  # fmt: skip
    page = opened(page_of(sources))
    assert page.locator("h1").inner_text() == HOSTILE[1]
    assert page.locator("img, [onload], [onerror], a[href^=javascript]").count() == 0
    # The page's own script and one JSON element for each mechanism.
    assert page.locator("script").count() == 1 + 2
    names = page.locator(".pg-picker").first.locator("tbody th").all_inner_texts()
    # What turns writing, or breaks a line, is shown by its number and does nothing.
    shown = [printable(one) for one in HOSTILE]
    assert "\\u202e" in shown[5]
    assert [" ".join(one.split()) for one in names] == [" ".join(one.split()) for one in shown]
    page.locator(".pg-picker").first.get_by_role("button", name="All", exact=True).click()
    assert "of your 7 releases" in page.locator(".pg-answer").first.inner_text()


def test_an_unguarded_page_would_be_caught(opened: Opener, three: str) -> None:
    page = opened(three.replace("<h1>synthetic</h1>", f"<h1>{HOSTILE[0]}</h1>"))
    page.wait_for_timeout(50)
    assert page.locator("img").count() == 1
    assert opened.forget()


def test_without_a_script_the_page_tells_everything_but_the_choice(
    opened: Opener, three: str
) -> None:
    page = opened(three, java_script_enabled=False)
    assert page.locator("noscript").inner_text().startswith("The page's script is off")
    assert page.locator(".pg-controls").first.is_hidden()
    # 30 releases of each of three mechanisms, each a row.
    assert page.locator(".pg-list tbody tr").count() == 90
    assert page.locator(".pg-verdict").count() == 3


def test_headings_descend_one_step_at_a_time_and_landmarks_are_there(
    opened: Opener, three: str
) -> None:
    page = opened(three)
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(e => +e.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    for landmark in ("main", "nav", "header"):
        assert page.locator(landmark).count() == 1


def test_the_first_tab_stop_skips_to_the_content(opened: Opener, three: str) -> None:
    page = opened(three)
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    assert focused.inner_text() == "Skip to the content"
    assert focused.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


@pytest.mark.parametrize("width", [320, 390, 820, 1280])
def test_nothing_scrolls_sideways_but_tables(opened: Opener, three: str, width: int) -> None:
    page = opened(three, width=width)
    sizes = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert sizes[0] <= sizes[1]


def test_a_long_name_without_spaces_breaks_no_layout(opened: Opener) -> None:
    long = "x" * 300
    sources = synthetic_sources(means={long: 0.2}, R=3, requirements=[long, "b"], name=long)
    page = opened(page_of(sources), width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_thousand_releases_need_few_elements_in_pictures(
    opened: Opener, thousand: Sources
) -> None:
    page = opened(page_of(thousand), width=390)
    assert page.locator("svg *").count() < 1000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_many_named_releases_are_counted_and_listed(opened: Opener) -> None:
    losses = (
        np.random.default_rng(1).random((20, 300, 1)) * np.linspace(0.2, 1.9, 20)[:, None, None]
    )
    limit = pg.Requirement(name="error", low=0.0, high=2.0, limit=0.5)
    member = pg.NamedReleases(losses=losses, requirements=[limit])
    certificate = pg.certify_releases({"member": member}, seed=1)
    page = opened(certificate.to_html())
    tally = page.locator(".pg-tally li").all_inner_texts()
    counts = [int(re.search(r"(\d+) of 20", line).group(1)) for line in tally]  # type: ignore[union-attr]
    decisions = [v.decision.value for v in certificate.verdicts]
    assert counts == [decisions.count(d) for d in ("validated", "unresolved", "violation")]
    assert min(counts) > 0
    rows = page.get_by_role("region", name="All verdicts").locator("tbody tr")
    assert rows.count() == 20
    page.get_by_label("show only verdicts").fill("violation")
    assert rows.locator("visible=true").count() == counts[2]


def test_a_comparison_warns_before_it_compares(opened: Opener) -> None:
    audits = []
    for name in ("first", "second"):
        sources = synthetic_sources(R=5, name=name)
        report = build_report(sources)
        audits.append(Compared(place=name, report=report, sources=sources))
    page = opened(comparison_page(compare(audits)), width=390)
    headings = page.locator("h2").all_inner_texts()
    assert headings[0] == "Before comparing"
    assert page.locator(".pg-verdict").count() == 6
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_notebook_cell_needs_no_script_and_no_request(opened: Opener) -> None:
    losses = {"one": np.full((20, 200, 1), 0.1)}
    claimed = [pg.Requirement(name="error", low=0.0, high=1.0, limit=0.4)]
    cell = pg.certify(losses, claimed, reliability_target=0.6, seed=1)._repr_html_()
    assert "<script" not in cell
    page = opened(f"<!DOCTYPE html><html lang=en><meta charset=utf-8><body>{cell}</body></html>")
    assert page.locator(".pg-verdict.pg-is-validated").count() == 1
    assert page.locator("svg[role=img]").count() >= 2


def test_a_record_without_picks_makes_no_claim_about_a_choice(opened: Opener) -> None:
    sources = synthetic_sources(R=5, picks=False)
    page = opened(page_of(sources))
    assert page.locator(".pg-answer").count() == 0
    assert page.get_by_text("No error budget was registered for choosing releases").count() == 1


def test_the_same_record_gives_the_same_bytes() -> None:
    sources = synthetic_sources(R=30)
    assert page_of(sources) == page_of(replace(sources))
