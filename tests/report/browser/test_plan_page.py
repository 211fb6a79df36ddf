"""The page of a plan computes what Python does, and can be moved by hand and by key."""

from __future__ import annotations

import json
import random
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from plan.page_twin import Simulated, direct, named
from proxyguard import Question, Requirement, assumed_law, pilot_law, recommend
from proxyguard.plan.assumed import Assumptions
from proxyguard.plan.law import Law
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.report import PlanReport
from proxyguard.registry.test import ComponentTest
from report.browser.conftest import Opener

if TYPE_CHECKING:
    from playwright.sync_api import Page

REFERENCES = Path(__file__).parents[2] / "references"
ERROR = Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)
READY = re.compile(".{6}")  # the cheapest plan is told, in a few words at least


@pytest.fixture(scope="module")
def found() -> Recommendation:
    law = assumed_law([ERROR], margins=[0.08], reliability=0.95, spread=0.2)
    question = Question(
        reliability_target="0.8", n=400, releases=60, modes=("direct",),
        tests=(ComponentTest.BINOMIAL,), release_cost=5.0,
    )  # fmt: skip
    return recommend(law, question, repetitions=100)


def open_page(opened: Opener, found: Recommendation, **options: Any) -> Page:
    page = opened(found.to_html(), **options)
    # wait_for_function polls by eval, which the page's own policy forbids.
    from playwright.sync_api import expect

    expect(page.locator(".pg-cheapest")).to_have_text(READY)
    return page


def random_setting(rng: random.Random) -> Assumptions:
    count = rng.choice([1, 1, 2, 3])
    requirements, margins, deviations, shares = [], [], [], []
    for j in range(count):
        low, width = rng.choice([0.0, -1.0]), rng.choice([1.0, 2.0])
        limit = rng.uniform(0.08, 0.45)
        two_valued = rng.random() < 0.6
        high = low + width
        requirements.append(
            Requirement(
                name=f"r{j}", low=low, high=high, limit=low + limit * width, two_valued=two_valued
            )
        )
        margins.append(rng.uniform(0.2, 0.55) * limit * width)
        deviations.append(None if two_valued else rng.uniform(0.05, 0.3) * width)
        shares.append(1.0 if rng.random() < 0.6 else rng.uniform(0.1, 0.9))
    target = rng.choice([0.6, 0.7, 0.8, 0.9])
    return Assumptions(
        requirements=tuple(requirements), margins=tuple(margins), deviations=tuple(deviations),
        reliability=rng.uniform(target + 0.02, 1.0), spread=rng.choice([0.0, 0.2, 0.4]),
        excess=rng.choice([0.0, 0.3]), reliability_target=str(target),
        alpha=rng.choice(["0.05", "0.02", "0.1"]),
        test=rng.choice([ComponentTest.BETTING, ComponentTest.CHERNOFF]), shares=tuple(shares),
    )  # fmt: skip


def test_powers_are_those_of_python_at_fifty_random_settings(
    opened: Opener, found: Recommendation
) -> None:
    rng = random.Random(20260824)
    page = open_page(opened, found)
    middling = 0
    for _ in range(50):
        setting, n, releases = random_setting(rng), rng.randint(60, 1500), rng.randint(20, 250)
        asked = {
            "requirements": [
                {"low": r.low, "high": r.high, "limit": r.limit, "margin": margin,
                 "sd": deviation, "two_valued": r.two_valued, "share": share}
                for r, margin, deviation, share in zip(setting.requirements, setting.margins,
                                                       setting.deviations, setting.shares,
                                                       strict=True)
            ],
            "reliability": setting.reliability, "spread": setting.spread,
            "test": setting.test.value, "excess": setting.excess,
            "target": float(str(setting.reliability_target)),
            "alpha": float(str(setting.alpha)),
        }  # fmt: skip
        here = page.evaluate(
            "([s, n, R]) => [planner.direct(s, n, R).power, planner.named(s, n, R).power]",
            [asked, n, releases],
        )
        there = [direct(setting, n, releases).power, named(setting, n, releases).power]
        assert here == pytest.approx(there, abs=1e-9)
        middling += sum(0.01 < power < 0.99 for power in there)
    assert middling > 25  # powers of 0 and 1 would agree by themselves


def differing_pilots() -> Law:
    """Return thirty pilots, a few of which come close to the limit."""
    rng = np.random.default_rng(3)
    losses = rng.beta(1, 6, (1, 300, 1)) + rng.gamma(1.2, 0.012, (30, 1, 1))
    losses = np.clip(losses + rng.normal(0, 0.05, losses.shape), 0, 1)
    return pilot_law(losses, [Requirement(name="Brier", low=0, high=1, limit=0.2)])


@pytest.mark.parametrize("law", [0, 1])
def test_chances_of_pilots_are_those_of_python_wherever_sliders_stand(
    opened: Opener, law: int
) -> None:
    releases = (pilots, differing_pilots)[law]()
    question = Question(reliability_target="0.8", n=500, releases=60, modes=("direct",))
    found = recommend(releases, question, repetitions=100, compare=False)
    page, assumed = open_page(opened, found), Assumptions.of(found.law, found.question)
    given = json.loads(page.locator(".pg-plan script").text_content() or "")
    simulated = Simulated.of(assumed, given["simulated"])
    rng, middling = random.Random(7), 0
    for case in range(20):
        n, draws = rng.randint(130, 1900), rng.randint(15, 220)
        factor = 1.0 if case % 2 else rng.uniform(0.6, 1.2)
        asked = replace(assumed, margins=tuple(factor * m for m in assumed.margins))
        if factor != 1.0:
            asked = replace(asked, reliability=rng.uniform(0.85, 1.0))
        here = page.evaluate(
            "([margins, reliability, moved, width, n, R]) => {"
            " const given = JSON.parse(document.querySelector('.pg-plan script').textContent);"
            " const planned = { ...given, target: 0.8, reliability: given.reliability };"
            " const offsets = planner.offsets(planned, given.simulated);"
            " const setting = { ...planned, reliability, offsets, moved, width,"
            "   requirements: given.requirements.map((r, j) => ({ ...r, margin: margins[j] })) };"
            " return ['direct', 'named'].map((mode) => planner.chance(setting, mode, n, R).power);"
            "}",
            [asked.margins, asked.reliability, factor != 1.0, factor, n, draws],
        )
        there = [
            simulated.told(power(asked, n, draws), width=factor, moved=factor != 1.0)
            for power in (direct, named)
        ]
        assert here == pytest.approx(there, abs=1e-9)
        middling += sum(0.01 < chance < 0.99 for chance in there)
    assert middling > 15
    # Nothing is shown beyond the sizes that were simulated.
    ends = {"records": (simulated.records[0], simulated.records[-1]),
            "draws": (simulated.draws[0], simulated.draws[-1])}  # fmt: skip
    for name, (low, high) in ends.items():
        slider = page.locator(f"#pg-{name}")
        for key, end in (("Home", low), ("End", high)):
            slider.press(key)
            assert page.locator(f"#pg-{name}-is").inner_text() == f"{end:,}"


def test_bounds_are_the_references_to_twelve_digits(opened: Opener, found: Recommendation) -> None:
    page = open_page(opened, found)
    asked: list[tuple[str, list[float], float]] = []
    for row in json.loads((REFERENCES / "binomial.json").read_text())["rows"]:
        name = {"lower_tail": "lowerTail", "upper_tail": "upperTail"}.get(row["kind"])
        if name:
            asked.append((name, [row["k"], row["n"], float(row["p"])], float(row["value"])))
    for row in json.loads((REFERENCES / "sharp.json").read_text())["rows"]:
        if row["kind"] == "p_value":
            numbers = [row["N"], row["R"], float(row["eta0"]), float(row["kappa"])]
            asked.append(("sharpPvalue", numbers, float(row["value"])))
    assert len(asked) > 70
    script = "asked => asked.map(([name, numbers]) => bounds[name](...numbers))"
    values = page.evaluate(script, [[name, numbers] for name, numbers, _ in asked])
    for value, (name, numbers, expected) in zip(values, asked, strict=True):
        # Below the least normal double there are no twelve digits.
        if expected > 1e-300:
            assert value == pytest.approx(expected, rel=1e-12), (name, numbers)


def test_the_cheapest_plan_reaches_the_wanted_chance_and_a_record_less_does_not(
    opened: Opener, found: Recommendation
) -> None:
    page = open_page(opened, found)
    page.get_by_role("button", name="Take these sizes").click()
    value = tomllib.loads(page.locator("#pg-toml").inner_text())
    n, releases = value["plan"]["records"], value["plan"]["draws"]
    assumed = Assumptions.of(found.law, found.question)
    assert direct(assumed, n, releases).power == pytest.approx(
        float(value["plan"]["power"]), abs=5.1e-4
    )
    assert max(direct(assumed, n, releases).power, named(assumed, n, releases).power) >= 0.8
    assert direct(assumed, n - 1, releases).power < 0.8
    assert value["claim"]["mode"] == "direct"
    assert value["claim"]["test"] == "binomial"
    assert float(value["claim"]["threshold"]) < 0.05


def test_the_page_begins_with_the_chance_of_the_plan_and_says_when_it_computes(
    opened: Opener,
) -> None:
    # Simulated: the page's own chance is an approximation, and another number.
    pair = [Requirement(name=name, low=-1, high=1, limit=0.1) for name in ("error", "Brier")]
    law = assumed_law(pair, margins=[0.06] * 2, deviations=[0.3] * 2, reliability=0.95)
    question = Question(reliability_target="0.8", n=700, releases=90, modes=["direct"])
    found = recommend(law, question, effort=3e5, repetitions=200, compare=False)
    page = open_page(opened, found, width=390)
    said = f"{100 * float(found.chosen.power.shown):.1f}\u00a0%"
    assert page.locator(".pg-chance").inner_text() == said
    written = tomllib.loads(page.locator("#pg-toml").inner_text())["plan"]["power"]
    assert written == found.chosen.power.shown
    assert "as proxyguard plan has it" in page.locator(".pg-chance-words").inner_text()
    assert not page.locator(".pg-busy").is_visible()
    # Before the search for sizes, which keeps the page busy, it says so.
    seen = page.evaluate(
        "() => { const slider = document.querySelector('#pg-wanted'); slider.value = 60;"
        " slider.dispatchEvent(new Event('input', { bubbles: true }));"
        " return getComputedStyle(document.querySelector('.pg-busy')).visibility; }"
    )
    assert seen == "visible"
    assert "as proxyguard plan has it" not in page.locator(".pg-chance-words").inner_text()
    assert "Not on this page: the tests of Hoeffding" in page.content()


@pytest.mark.parametrize("width", [1280, 390])
def test_keys_move_a_slider_and_reset_brings_it_back(
    opened: Opener, found: Recommendation, width: int
) -> None:
    page = open_page(opened, found, width=width)
    before = page.locator(".pg-chance").inner_text()
    slider = page.get_by_role("slider", name="target records")
    assert slider.get_attribute("aria-valuetext") == "400"
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert int((slider.get_attribute("aria-valuetext") or "").replace(",", "")) > 400
    assert page.locator(".pg-chance").inner_text() != before
    page.get_by_role("button", name="Reset").click()
    assert page.locator(".pg-chance").inner_text() == before
    # Nothing sticks out of the window.
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def pilots(count: int = 20, records: int = 300, *, truth: bool = False) -> Law:
    rng = np.random.default_rng(5)
    hard = rng.random((1, records))
    first = (hard < rng.uniform(0.03, 0.07, size=(count, 1))).astype(float)
    second = (rng.random((count, records)) < 0.04).astype(float)
    pair = [replace(ERROR, name=name, limit=0.12) for name in ("one", "two")]
    return pilot_law(np.stack([first, second], axis=2), pair, truth=truth)


def test_page_and_plan_agree_on_what_is_enough(opened: Opener) -> None:
    law = pilots(truth=True)
    question = Question(
        reliability_target="0.8", power=0.9, modes=["direct"], tests=["binomial"], release_cost=3.0
    )
    found = recommend(law, question, repetitions=1000)
    assert found.reaches
    page = open_page(opened, found)
    chosen = page.locator("#pg-toml").inner_text()
    # Untouched, the blocks are the plan's own: its way, its origin, its cost.
    assert tomllib.loads(chosen) == tomllib.loads(PlanReport(found=found).to_toml())
    assert "20 pilot releases on 300 records" in chosen
    assert "beyond nothing is shown" in page.locator(".pg-shift").inner_text()
    # The plan reaches the wanted chance, and on the page it does as well: none dearer is cheapest.
    words = page.locator(".pg-cheapest").inner_text().replace(",", "")
    cost = float(words.rpartition("cost ")[2].rstrip("."))
    assert words.startswith("Cheapest for 90")
    assert cost <= found.chosen.cost + 1
    # Elsewhere than at the plan: still of these pilots, and their cost to the last digit.
    page.get_by_role("button", name="Take these sizes").click()
    moved = tomllib.loads(page.locator("#pg-toml").inner_text())["plan"]
    assert moved["origin"] == law.origin
    assert float(moved["cost"]) == moved["records"] + 3 * moved["draws"]


def test_a_way_that_the_page_does_not_compute_is_named(opened: Opener) -> None:
    question = Question(reliability_target="0.8", n=1100, releases=56, modes=["hybrid"])
    page = open_page(opened, recommend(pilots(), question, repetitions=60, effort=1e4))
    assert "The plan's way, hybrid, sharp, is not on this page" in page.content()


def test_many_draws_are_searched_as_far_as_the_plan_has_gone(opened: Opener) -> None:
    law = assumed_law([ERROR], margins=[0.03], reliability=0.84, spread=0.2)
    question = Question(
        reliability_target="0.8", n=9000, releases=1500, power=0.8, modes=["direct"],
        tests=[ComponentTest.BINOMIAL],
    )  # fmt: skip
    found = recommend(law, question, repetitions=100)
    assert found.reaches
    page = open_page(opened, found)
    assert "Cheapest for 80" in page.locator(".pg-cheapest").inner_text()
    # No number of an axis is cut by the edge of its picture.
    cut = page.evaluate(
        "[...document.querySelectorAll('.pg-plan svg text')].filter((text) => {"
        " const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;"
        " return box.x < -1 || box.x + box.width > view.width + 1; }).map((t) => t.textContent)"
    )
    assert cut == []


def test_a_subgroup_has_its_share_and_its_cost_on_the_page(opened: Opener) -> None:
    old = replace(ERROR, name="old", group="old")
    law = assumed_law([old], margins=[0.1], reliability=0.95, spread=0.2, shares=[0.068])
    question = Question(
        reliability_target="0.8", n=6000, releases=60, modes=["direct"], screening_cost=0.1,
        tests=[ComponentTest.BINOMIAL],
    )  # fmt: skip
    found = recommend(law, question, repetitions=300)
    page = open_page(opened, found)
    said = page.locator(".pg-chance-words").inner_text()
    assert f"for a cost of {round(found.chosen.cost):,}" in said
    assert "old: 0.068 of the records" in page.content()
    power = page.evaluate(
        "planner.direct({ ...JSON.parse(document.querySelector('.pg-plan script').textContent),"
        " target: 0.8, test: 'betting', reliability: 0.95 }, 6000, 60).power"
    )
    assumed = Assumptions.of(found.law, found.question)
    assert power == pytest.approx(direct(assumed, 6000, 60).power, abs=1e-9)
    assert abs(power - found.chosen.power.value) < 4 * found.chosen.power.standard_error


def test_a_plan_of_one_release_is_shown_as_it_is(opened: Opener) -> None:
    law = assumed_law([ERROR], margins=[0.08], reliability=1.0)
    question = Question(
        reliability_target="0.0001", alpha="0.01", n=358, releases=1, modes=["direct"],
        tests=[ComponentTest.BINOMIAL],
    )  # fmt: skip
    found = recommend(law, question, repetitions=100)
    page = open_page(opened, found)
    said = page.locator(".pg-chance-words").inner_text()
    assert said.startswith("chance that 358 records validate one release, for a cost")
    assert (
        not page.locator("#pg-draws, #pg-target, #pg-reliability, #pg-toml")
        .filter(visible=True)
        .count()
    )
    page.get_by_role("button", name="Take these sizes").click()
    assert "validate one release" in page.locator(".pg-chance-words").inner_text()
    assert page.evaluate("document.querySelector('#pg-draws').value") == "0"


def test_sliders_contain_what_was_planned(opened: Opener) -> None:
    law = assumed_law([ERROR], margins=[0.2], reliability=0.4, spread=0.2)
    question = Question(
        reliability_target="0.2", n=15, releases=4, modes=["direct"], tests=["binomial"]
    )
    page = open_page(opened, recommend(law, question, repetitions=100))
    said = page.locator(".pg-chance-words").inner_text()
    assert "15 records and 4 draws validate a reliability above 20\u00a0%" in said
    assert page.locator("#pg-reliability-is").inner_text() == "40.0\u00a0%"
