"""The page looks as it did when it was last looked at: verdicts, signs, colours, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from report.browser.conftest import page_of
from report.browser.golden import (
    MARKS,
    SHOTS,
    WORDS,
    kept,
    marks_apart,
    shoot,
    words_apart,
)
from report.synthetic import synthetic_sources

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SPOILED = {
    "the check in a disc is missing": ".pg-verdict .pg-icon .pg-sign { display: none; }",
    "one verdict's sign is missing": ".pg-is-violation .pg-icon { visibility: hidden; }",
    "one interval is missing": ".pg-is-unresolved figure rect { display: none; }",
    "the targets are missing": ".pg-verdict .pg-target { display: none; }",
    "one estimate is missing": ".pg-figures .pg-estimate:nth-of-type(5) { display: none; }",
    "the limits are missing": ".pg-limit { display: none; }",
    "two verdicts' colours are swapped": (".pg-page { --pg-good: #a3241c; --pg-bad: #1a6b45; }"),
    "unresolved looks validated": ".pg-page { --pg-open: #1a6b45; }",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden") / "page.html"
    path.write_text(page_of(synthetic_sources(R=30)), encoding="utf-8")
    return path


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("shot", SHOTS)
def test_the_page_looks_as_it_did(browser: Browser, page: Path, shot: str) -> None:
    marks = shoot(browser, page, shot, words=False)
    assert marks_apart(marks, kept(shot, "marks").read_bytes()) < MARKS
    words = shoot(browser, page, shot)
    assert words_apart(words, kept(shot, "words").read_bytes()) < WORDS


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize("fault", SPOILED)
def test_a_fault_would_be_seen(browser: Browser, page: Path, fault: str) -> None:
    found = shoot(browser, page, "desktop", SPOILED[fault], words=False)
    assert marks_apart(found, kept("desktop", "marks").read_bytes()) > 2 * MARKS


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize("part", [".pg-is-violation .pg-sentence", "h1", ".pg-is-validated h3"])
def test_a_lost_word_would_be_seen(browser: Browser, page: Path, part: str) -> None:
    found = shoot(browser, page, "desktop", f"{part} {{ visibility: hidden; }}")
    assert words_apart(found, kept("desktop", "words").read_bytes()) > 1.5 * WORDS


def test_letters_drawn_a_little_otherwise_are_no_fault(browser: Browser, page: Path) -> None:
    """Another rasteriser moves letters by a fraction of a pixel; no word is lost."""
    css = ".pg-page { transform: translate(0.5px, 0.5px); text-rendering: optimizeSpeed; }"
    found = shoot(browser, page, "desktop", css)
    assert words_apart(found, kept("desktop", "words").read_bytes()) < WORDS
