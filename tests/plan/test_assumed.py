"""What the page with sliders computes, against the planner: sums, and simulated bets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from plan.page_twin import Simulated, direct, named
from proxyguard import Requirement
from proxyguard.plan.assumed import Assumptions
from proxyguard.plan.law import Law, assumed_law, pilot_law
from proxyguard.plan.question import Question, settings, ways
from proxyguard.plan.recommend import Recommendation, recommend
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import exact_power, power, power_on
from proxyguard.plan.targets import Targets
from proxyguard.registry.test import ComponentTest
from proxyguard.report.plan_page import plan_page

ERROR = Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)
RARE = Requirement(name="rare", low=0, high=1, limit=0.2, two_valued=True)
BRIER = Requirement(name="Brier", low=0, high=1, limit=0.2)
QUESTION = Question(reliability_target="0.8", n=300, releases=60)


def test_the_direct_power_of_two_valued_losses_is_the_best_exact_one() -> None:
    for requirements, margins in (((ERROR,), (0.08,)), ((ERROR, RARE), (0.08, 0.06))):
        law = assumed_law(requirements, margins=margins, reliability=0.95, spread=0.2)
        (way,) = (
            way for way in ways(QUESTION, requirements)
            if way.mode == "direct" and way.test is ComponentTest.BINOMIAL
        )  # fmt: skip
        plans = [plan for plan, _ in settings(way, QUESTION, law, 300, 60)]
        powers = [exact_power(law, plan) for plan in plans]
        found = direct(Assumptions.of(law, QUESTION), 300, 60)
        assert found.power == pytest.approx(max(p for p in powers if p is not None), rel=1e-9)
        # The sum over sets of kinds is what targets give that are drawn by the thousand.
        best = plans[int(np.argmax(powers))]
        drawn = power_on(Targets(law, 300, repetitions=10_000, seed=3), best)
        assert abs(drawn.value - found.power) < 4 * drawn.standard_error
        assert 0.2 < found.power < 0.9


def test_the_named_power_is_never_above_that_of_holm() -> None:
    law = assumed_law([ERROR], margins=[0.09], reliability=0.95, spread=0.2)
    (way,) = (
        way for way in ways(QUESTION, [ERROR])
        if way.mode == "named" and way.test is ComponentTest.BINOMIAL
    )  # fmt: skip
    holm = max(
        (power(law, plan, repetitions=2000) for plan, _ in settings(way, QUESTION, law, 300, 60)),
        key=lambda found: found.value,
    )
    found = named(Assumptions.of(law, QUESTION), 300, 60).power
    assert 0.1 < found < holm.value + 4 * holm.standard_error


@pytest.mark.parametrize(
    ("limit", "margin", "deviation", "n"),
    [(0.2, 0.05, 0.15, 150), (0.3, 0.1, 0.3, 120), (0.1, 0.02, 0.1, 400)],
)
def test_bets_are_approximated_to_a_twentieth(
    limit: float, margin: float, deviation: float, n: int
) -> None:
    requirement = Requirement(name="loss", low=0, high=1, limit=limit)
    law = assumed_law(
        [requirement], margins=[margin], deviations=[deviation], reliability=0.95, spread=0.2
    )
    (way,) = (
        way for way in ways(QUESTION, [requirement])
        if way.mode == "direct" and way.test is ComponentTest.BETTING
    )  # fmt: skip
    found = direct(Assumptions.of(law, QUESTION), n, 60)
    (plan,) = (
        plan for plan, _ in settings(way, QUESTION, law, n, 60)
        if f"{float(plan.claim.registered()['threshold'])}" == found.tuned  # type: ignore[arg-type]
    )  # fmt: skip
    drawn = power_on(Targets(law, n, repetitions=150, seed=1), plan)
    assert abs(drawn.value - found.power) < 0.05 + 2 * drawn.standard_error
    assert found.power > 0.1


def test_assumptions_are_found_again_in_the_law_that_was_made_from_them() -> None:
    law = assumed_law(
        [ERROR, BRIER], margins=[0.08, 0.05], deviations=[None, 0.15], reliability=0.95,
        spread=0.2, excess=0.5,
    )  # fmt: skip
    found = Assumptions.of(law, QUESTION)
    assert found.margins == pytest.approx((0.08, 0.05))
    assert (found.reliability, found.spread) == pytest.approx((0.95, 0.2))
    assert found.excess == pytest.approx(0.5, rel=1e-6)
    assert found.deviations[0] is None
    assert found.deviations[1] == pytest.approx(0.15, rel=0.05)  # 400 quantiles have fewer tails
    # Pilots of one kind have no spread and no invalid release.
    alike = pilot_law(np.full((3, 50, 1), 0.1), [BRIER], reliability="0.9")
    assert (Assumptions.of(alike, QUESTION).spread, Assumptions.of(alike, QUESTION).excess) == (
        pytest.approx(0.0, abs=1e-9), 0.0,
    )  # fmt: skip


def test_a_subgroup_has_as_many_records_as_chance_gives_it() -> None:
    old = replace(ERROR, name="old", group="old")
    law = assumed_law([old], margins=[0.1], reliability=0.95, spread=0.2, shares=[0.2])
    question = replace(QUESTION, n=2000)
    (way,) = (
        way for way in ways(question, [old])
        if way.mode == "direct" and way.test is ComponentTest.BINOMIAL
    )  # fmt: skip
    found = direct(Assumptions.of(law, question), 2000, 60)
    (plan,) = (
        plan for plan, _ in settings(way, question, law, 2000, 60)
        if f"{float(plan.claim.registered()['threshold'])}" == found.tuned  # type: ignore[arg-type]
    )  # fmt: skip
    drawn = power_on(Targets(law, 2000, repetitions=3000, seed=3), plan)
    assert abs(drawn.value - found.power) < 4 * drawn.standard_error
    assert 0.2 < found.power < 0.95


def differing(requirements: int) -> Law:
    """Return thirty pilots, a few of which come close to some limit."""
    rng = np.random.default_rng(3)
    shape = (30, 500, requirements)
    losses = rng.beta(1, 6, (1, *shape[1:])) + rng.gamma(1.2, 0.012, (30, 1, requirements))
    losses = np.clip(losses + rng.normal(0, 0.05, shape), 0, 1)
    limits = [replace(BRIER, name=f"r{j}") for j in range(requirements)]
    return pilot_law(losses, limits, reliability="0.96")


def read_page(found: Recommendation) -> dict[str, Any]:
    """Return the numbers that a page starts from."""
    written = re.search('<script type="application/json">(.*?)</script>', plan_page(found), re.S)
    assert written
    data: dict[str, Any] = json.loads(written[1])
    return data


@pytest.mark.parametrize("requirements", [1, pytest.param(3, marks=pytest.mark.whole)])
def test_pilots_that_differ_are_promised_no_more_than_targets_give(requirements: int) -> None:
    law = differing(requirements)
    question = Question(
        reliability_target="0.8", n=600, releases=60, modes=["direct"], tests=["betting"]
    )
    found = recommend(law, question, repetitions=300, compare=False)
    assumed = Assumptions.of(law, question)
    simulated = Simulated.of(assumed, read_page(found)["simulated"])
    way, chances, hopeful = found.chosen.way, [], []
    for n, releases in ((280, 20), (500, 180), (800, 25), (1500, 90), (2000, 20)):
        told = simulated.told(direct(assumed, n, releases))
        targets = Targets(law, n, repetitions=300, seed=9)
        true = max(
            (power_on(targets, plan) for plan, _ in settings(way, question, law, n, releases)),
            key=lambda found: found.value,
        )
        chances.append(told - true.value)
        assert told < true.value + 2 * true.standard_error + 0.02
        # One number for how margins differ, as if evenly, and requirements alone by themselves.
        hopeful.append(direct(replace(assumed, kinds=None), n, releases).power - true.value)
    assert np.mean(chances) > -0.1  # and not far less either
    assert max(hopeful) > 0.12


def law_of_all() -> Law:
    return assumed_law([ERROR], margins=[0.1], reliability=0.95, spread=0.2)


def test_what_few_records_make_of_margins_is_told_apart_from_what_releases_do() -> None:
    rng = np.random.default_rng(4)
    # Forty releases alike, each on 150 records of its own luck.
    alike = (rng.random((40, 150, 1)) < 0.2).astype(float)
    law = pilot_law(alike, [ERROR], reliability="0.95")
    found = Assumptions.of(law, QUESTION)
    assert found.chance_spread == pytest.approx(found.spread, rel=0.25)
    asked = replace(QUESTION, modes=("direct",))
    said = str(PlanReport(found=recommend(law, asked, repetitions=60, effort=1e4, compare=False)))
    assert "is what the chance of their few records gives" in said
    # Releases that differ on as many records: little of it is the records' doing.
    hard = rng.random((1, 4000))
    risks = rng.uniform(0.05, 0.25, size=(40, 1))
    differ = (hard < risks).astype(float)[:, :, None]
    found = Assumptions.of(pilot_law(differ, [ERROR], reliability="0.95"), QUESTION)
    assert found.chance_spread < 0.2 * found.spread
    assert Assumptions.of(law_of_all(), QUESTION).chance_spread == 0.0
