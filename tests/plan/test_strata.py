"""Plans of strata: what is predicted comes true, and more records never have less power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import proxyguard as pg
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.plan.law import Law, assumed_law, pilot_law
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import needs, recommend
from proxyguard.plan.search import power
from proxyguard.registry.design import Design, StratifiedClusters
from proxyguard.registry.requirement import Requirement

Simulate = Callable[..., float]

LOSS = Requirement(name="loss", low=0, high=1, limit=0.28)
COUNTED = Requirement(name="error", low=0, high=1, limit=0.3, slack=0.07, two_valued=True)
# Of the city half as many records as it weighs, of the rest twice as many.
UNEVEN = {"city": "7/10", "rest": "3/10"}


def pilots() -> Law:
    """Return thirty pilots whose losses hardly vary, so that bets need far fewer records."""
    rng = np.random.default_rng(5)
    losses = rng.beta(40, 110, (1, 300, 1)) + rng.normal(0, 0.004, (30, 1, 1))
    return pilot_law(np.clip(losses, 0, 1), [LOSS], reliability="0.97")


DESIGNS: dict[str, Callable[[int], Design]] = {
    "weights unlike sizes": lambda n: pg.Stratified(
        sizes={"city": n // 4, "rest": n - n // 4}, weights=UNEVEN
    ),
    "weights like sizes": lambda n: pg.Stratified(
        sizes={"city": n // 4, "rest": n - n // 4}, weights={"city": n // 4, "rest": n - n // 4}
    ),
    "declared for fewer": lambda n: pg.Stratified(sizes={"city": 25, "rest": 75}, weights=UNEVEN),
    "declared for more": lambda n: pg.Stratified(
        sizes={"city": 10_000, "rest": 90_000}, weights=UNEVEN
    ),
    "clusters": lambda n: StratifiedClusters(
        sizes={"city": n // 4, "rest": n - n // 4}, weights=UNEVEN
    ),
}


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize("name", DESIGNS)
def test_power_does_not_fall_with_the_records_of_strata(name: str) -> None:
    law, reached = pilots(), []
    for n in (1000, 4000, 16_000):
        question = Question(
            reliability_target="0.8", n=n, releases=60, modes=["direct"], design=DESIGNS[name](n)
        )
        # So little may be bet on that no record can be read by itself at the larger sizes.
        found = recommend(law, question, repetitions=300, effort=4e5, compare=False)
        reached.append(found.chosen.power.value)
    # Four errors of 300 targets, whose power is 0 or 1 on each.
    assert np.all(np.diff(reached) > -0.12), reached
    assert reached[-1] > reached[0] + 0.2, reached


CLAIMS: list[dict[str, str]] = [
    {"test": "betting_fixed"}, {"test": "hoeffding"},
    {"score": "slack", "bound": "rescaled", "target_share": "0.8"},
    {"mode": "named", "test": "betting_fixed", "release_share": "0.9"},
]  # fmt: skip


def plan_of(claim: dict[str, str], n: int, design: Design) -> AuditPlan:
    choices = {"mode": "direct", "reliability_target": "0.75", "alpha": "0.05", **claim}
    return AuditPlan(claim=planned(Claim.of(choices)), n=n, releases=60, design=design)


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_is_predicted_of_strata_comes_true(claim: dict[str, str], simulate: Simulate) -> None:
    law = assumed_law([COUNTED], margins=[0.1], reliability=0.95, spread=0.3)
    design = pg.Stratified(sizes={"city": 250, "rest": 750}, weights=UNEVEN)
    plan = plan_of(claim, 1000, design)
    predicted = power(law, plan, repetitions=2000, seed=3)
    found = simulate(law, plan, audits=200, seed=7)
    assert 0.1 < predicted.value < 0.95, predicted  # else a comparison says little
    error = np.sqrt(predicted.value * (1 - predicted.value) / 200 + predicted.standard_error**2)
    assert abs(found - predicted.value) < 3.5 * error
    # Were all records to count alike, more would be promised than comes true.
    alike = replace(plan, design=pg.Stratified(sizes=design.sizes, weights=design.sizes))
    assert power(law, alike, repetitions=2000, seed=3).value > found + 3.5 * error


@pytest.mark.parametrize("claim", CLAIMS)
def test_strata_at_another_size_than_declared_are_those_of_that_size(claim: dict[str, str]) -> None:
    law = assumed_law([COUNTED], margins=[0.1], reliability=0.95, spread=0.3)
    plans = [
        plan_of(claim, 1000, pg.Stratified(sizes={"city": n, "rest": 3 * n}, weights=UNEVEN))
        for n in (5, 250, 9000)
    ]
    powers = {power(law, plan, repetitions=50, seed=3).value for plan in plans}
    assert len(powers) == 1
    assert len({needs([COUNTED], plan) for plan in plans}) == 1


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 500), min_size=1),
    st.integers(1, 10_000),
)
def test_strata_keep_their_proportions_at_another_size(sizes: dict[str, int], n: int) -> None:
    weights = {g: Fraction(1, len(sizes)) for g in sizes}
    design = pg.Stratified(sizes=sizes, weights=weights)
    other = design.of_size(n)
    assert other.weights == design.weights
    for stratum, size in sizes.items():
        # Each keeps one record, so that a tiny target has a few more than its strata share.
        assert other.sizes[stratum] >= 1
        if n >= design.n_records:
            assert abs(other.sizes[stratum] - size * n / design.n_records) <= 1
    if n >= design.n_records:
        assert other.n_records == n


def test_what_a_plan_of_strata_needs_is_told_in_their_proportions() -> None:
    design = pg.Stratified(sizes={"city": 25, "rest": 75}, weights=UNEVEN)
    plan = plan_of({"test": "hoeffding", "threshold": "0.01"}, 20, design)
    told = needs([COUNTED], plan)
    least = told.least_records
    assert least is not None
    assert any(f"at least {least} are needed" in why for why in told.obstacles)
    assert not needs([COUNTED], replace(plan, n=least)).obstacles
    assert needs([COUNTED], replace(plan, n=least - 4)).obstacles
