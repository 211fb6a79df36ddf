"""The page's count of valid releases among those chosen is Python's, to the integer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest

from proxyguard.certificate.picks import read_picks
from proxyguard.report.sources import Sources
from report.browser.conftest import Opener, page_of
from report.synthetic import synthetic_sources

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHOOSE = """subsets => {
  const box = document.querySelector(".pg-picker");
  const ticks = [...box.querySelectorAll("tbody input")];
  return subsets.map(chosen => {
    const wanted = new Set(chosen);
    ticks.forEach((one, r) => { one.checked = wanted.has(r); });
    ticks[0].dispatchEvent(new Event("change", { bubbles: true }));
    return box.querySelector(".pg-answer").textContent;
  });
}"""


def with_evalues(sources: Sources, evalues: list[int], alpha: Fraction, unit: int) -> Sources:
    """Return the record with other e-values, in units of ``1/unit``."""
    assert sources.predicate is not None
    assert sources.picks is not None
    ((name, one),) = sources.picks.mechanisms.items()
    changed = one.model_copy(
        update={
            "evalues": tuple(str(e) for e in evalues),
            "alpha": (str(alpha.numerator), str(alpha.denominator)),
            "unit": f"1/{unit}",
        }
    )
    picks = sources.picks.model_copy(update={"mechanisms": {name: changed}})
    return replace(sources, predicate=sources.predicate.model_copy(update={"picks": picks}))


def hard_evalues(R: int, alpha: Fraction, unit: int, rng: random.Random) -> list[int]:
    """Return zeros, ties at and beside 1/alpha, caps for infinities, and numbers in between."""
    cap, line = ceil(R / alpha * unit), int(unit / alpha)
    kinds: list[Callable[[], int]] = [
        lambda: 0, lambda: cap, lambda: line, lambda: line - 1, lambda: line + 1,
        lambda: rng.randrange(line), lambda: rng.randrange(cap), lambda: unit,
    ]  # fmt: skip
    return [rng.choice(kinds)() for _ in range(R)]


def subsets(R: int, rng: random.Random, count: int) -> list[list[int]]:
    """Return random choices of every size, the whole and nothing among them."""
    found = [[], list(range(R)), [0], [R - 1]]
    while len(found) < count:
        size = rng.choice([1, 2, 5, rng.randrange(R), rng.randrange(R), R - 1])
        found.append(sorted(rng.sample(range(R), size)))
    return found


def sentence(chosen: int, valid: int) -> str:
    if chosen == 0:
        return "Choose releases to see how many of them are valid."
    of = "your 1 release" if chosen == 1 else f"your {chosen} releases"
    verb = "is" if valid == 1 else "are"
    return (
        f"At least {valid} of {of} {verb} valid (with 95 % confidence, for every choice at once)."
    )


def agreed(page: Page, sources: Sources, choices: list[list[int]]) -> list[int]:
    """Check every answer of the page against Python; return the counts."""
    (count,) = read_picks(sources.picks).values()
    valid = [count.of([count.releases[r] for r in chosen]) for chosen in choices]
    expected = [sentence(len(c), v) for c, v in zip(choices, valid, strict=True)]
    assert page.evaluate(CHOOSE, choices) == expected
    return valid


def test_five_hundred_choices_of_a_thousand_give_python_s_integers(
    opened: Opener, thousand: Sources
) -> None:
    rng = random.Random(20260902)
    alpha, unit = Fraction(1, 20), 1 << 20
    hard = with_evalues(thousand, hard_evalues(1000, alpha, unit, rng), alpha, unit)
    choices = subsets(1000, rng, 500)
    valid = agreed(opened(page_of(hard)), hard, choices)
    # The choices reach both ends: nothing valid, and everything.
    assert any(v == 0 < len(c) for v, c in zip(valid, choices, strict=True))
    assert any(v == len(c) > 0 for v, c in zip(valid, choices, strict=True))
    assert len(set(valid)) > 50


def test_an_audit_s_own_evalues_agree_too(opened: Opener, thousand: Sources) -> None:
    agreed(opened(page_of(thousand)), thousand, subsets(1000, random.Random(3), 20))


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize("alpha", [Fraction(1, 60), Fraction(3, 70)])
def test_ties_at_the_line_count_the_same(opened: Opener, alpha: Fraction) -> None:
    rng = random.Random(7)
    base = synthetic_sources(means={"careful": 0.2}, R=9)
    for unit in (1, 97, 10**24):
        hard = with_evalues(base, hard_evalues(9, alpha, unit, rng), alpha, unit)
        every = [[r for r in range(9) if mask >> r & 1] for mask in range(512)]
        agreed(opened(page_of(hard)), hard, every)


def test_python_would_notice_a_page_that_counts_equality_as_invalid(
    opened: Opener, thousand: Sources
) -> None:
    """The script is changed from < to <=; the tie that no reader would see is seen."""
    from proxyguard.report import html as rendering

    script = rendering._asset("page.js")
    assert "if (sum < 0n) most = k;" in script
    changed = script.replace("if (sum < 0n) most = k;", "if (sum <= 0n) most = k;")
    unit, alpha = 1, Fraction(1, 20)
    tied = with_evalues(synthetic_sources(means={"careful": 0.2}, R=3), [20, 20, 20], alpha, unit)
    html = page_of(tied).replace(script, changed)
    page = opened(html.replace(rendering._hash(script), rendering._hash(changed)))
    with pytest.raises(AssertionError):
        agreed(page, tied, [[0, 1, 2]])


def test_releases_are_chosen_by_words(opened: Opener) -> None:
    sources = synthetic_sources(means={"careful": 0.28}, R=40)
    page = opened(page_of(sources))
    group = sources.groups["careful"]
    estimates = group.derived.estimates
    limits = [float(limit) for limit in group.limits]

    def chosen(text: str) -> list[int]:
        field = page.get_by_label("choose, e.g.")
        field.fill(text)
        field.press("Enter")
        ticks = page.locator(".pg-picker tbody input")
        return [r for r, one in enumerate(ticks.evaluate_all("a => a.map(e => e.checked)")) if one]

    assert chosen("1-12, 40") == [*range(12), 39]
    assert chosen("all") == list(range(40))
    assert chosen("none") == []
    assert chosen("107") == [7]  # a release's name comes before a place in the list
    assert chosen("estimate below 0.27") == [
        r for r, row in enumerate(estimates) if max(row) < 0.27
    ]
    assert chosen("cost below 0.24") == [r for r, row in enumerate(estimates) if row[1] < 0.24]
    within = [
        r for r, row in enumerate(estimates)
        if all(e < limit for e, limit in zip(row, limits, strict=True))
    ]  # fmt: skip
    assert 0 < len(within) < 40
    assert chosen("below limits") == within
    assert chosen("30-50") == within  # refused: the choice stays, and the page says why
    assert "30-50" in page.locator(".pg-problem").inner_text()
    page.get_by_role("button", name="None", exact=True).click()
    assert page.locator(".pg-problem").inner_text() == ""


def test_the_list_is_one_tab_stop_and_the_keys_move_in_it(opened: Opener) -> None:
    page = opened(page_of(synthetic_sources(means={"careful": 0.2}, R=40)))
    ticks = page.locator(".pg-picker tbody input")
    assert ticks.evaluate_all("all => all.filter(e => e.tabIndex === 0).length") == 1

    def here() -> Any:
        return page.evaluate("document.activeElement.getAttribute('aria-label')")

    ticks.first.focus()
    for key, expected in [("ArrowDown", 101), ("PageDown", 111), ("End", 139), ("Home", 100)]:
        page.keyboard.press(key)
        assert here() == f"release {expected}"
    page.keyboard.press("Space")
    assert page.locator(".pg-answer").inner_text().startswith("At least")
    page.get_by_label("show only").fill("13")
    assert page.locator(".pg-picker tbody tr:visible").count() == 11  # 113 and 130 to 139
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert here() == "release 113"


def test_the_answer_is_announced(opened: Opener) -> None:
    page = opened(page_of(synthetic_sources(means={"careful": 0.2}, R=5)))
    answer = page.get_by_role("status")
    assert answer.get_attribute("aria-live") == "polite"
    page.get_by_role("checkbox", name="release 101").check()
    assert "your 1 release" in answer.inner_text()
