"""Ramp widths chosen on pilots: the rule against a computation of its own, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from proxyguard import Requirement
from proxyguard.errors import RegistryError
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.modes.smooth import WIDTHS, Pilots, choose_ramps, ramps_tried

Array = NDArray[np.float64]

ERROR = Requirement(name="error", low=0, high=1, limit=0.3, slack=0.03)
EXCESS = Requirement(name="excess", low=-1, high=1, limit=0.1, slack=0.04)


def plan_of(n: int = 4000, releases: int = 120, **claim: Any) -> AuditPlan:
    chosen = {"mode": "smooth", "reliability_target": "0.8", "alpha": "0.05", **claim}
    return AuditPlan(claim=planned(Claim.of(chosen)), n=n, releases=releases)


def pilots_of(*columns: Array) -> Pilots:
    """Return pilots with these mean losses on the registered scales of ERROR and EXCESS."""
    scales = [(0.0, 1.0), (-1.0, 2.0)]
    unit = [(x - low) / width for x, (low, width) in zip(columns, scales, strict=False)]
    return Pilots(means=np.stack(unit, axis=1), chances=np.full(len(columns[0]), 1 / len(unit[0])))


def divergence(q: float, p: float) -> float:
    """Return the Bernoulli divergence ``d_B(q, p)``."""
    return float(sum(a * np.log(a / b) for a, b in ((q, p), (1 - q, 1 - p)) if a > 0.0))


def predicted(plan: AuditPlan, ramped: list[tuple[Requirement, float]], score: float) -> float:
    """Return the bound by quadrature and root finding, with nothing of the package."""
    n, releases, bound = plan.n, plan.releases, plan.claim.registered()["bound"].value
    kappa, slope = 0.0, 0.0
    for requirement, width in ramped:
        span = requirement.high - requirement.low
        v, c = ((x - requirement.low) / span for x in (
            requirement.limit, requirement.limit - float(requirement.slack or 0.0)
        ))  # fmt: skip
        h = width / span
        tail = integrate.quad(
            lambda s, c=c, v=v: np.exp(-n * divergence(c - s, v)), 0.0, h, points=[min(h, 0.01)]
        )[0]
        kappa, slope = max(kappa, tail / h), slope + 1.0 / h
    rho = min(1.0, slope / n)

    def pvalue(eta: float) -> float:
        def inside(x: float) -> float:
            b = min(1.0, kappa + rho * np.sqrt(n * x / 2.0))
            count = int(releases * score + 1e-9)
            return float(stats.binom.sf(count - 1, releases, 1 - (1 - eta) * (1 - b))) * np.exp(-x)

        return float(integrate.quad(inside, 0.0, 25.0, limit=200)[0])

    if bound == "sharp":
        if pvalue(1e-9) > 0.05:
            return 0.0
        return float(optimize.brentq(lambda eta: pvalue(eta) - 0.05, 1e-9, 1 - 1e-9))
    low = 0.0
    if score > 0.0:
        low = optimize.brentq(
            lambda p: releases * divergence(score, p) - np.log(40.0), 1e-12, min(score, 1 - 1e-12)
        )
    c = kappa + rho * np.sqrt(n / 2.0 * np.log(40.0))
    return max(0.0, low - c) / (1.0 if bound == "paper" or c >= 1.0 else 1.0 - c)


def by_hand(plan: AuditPlan, errors: Array, excesses: Array) -> tuple[str, list[float]]:
    """Return the best share and its widths: every share tried, the widest of equals taken."""
    requirements = [ERROR, EXCESS]
    cutoffs = [0.27, 0.06]
    middles = [sorted(x[x < c])[(np.sum(x < c) - 1) // 2] for x, c in zip(
        (errors, excesses), cutoffs, strict=True
    )]  # fmt: skip
    best = ("", [0.0, 0.0], -1.0)
    for share in sorted(map(float, WIDTHS), reverse=True):
        widths = [
            min(share * (c - m), c - r.low)
            for c, m, r in zip(cutoffs, middles, requirements, strict=True)
        ]
        score = np.mean(np.prod([
            np.clip((c - x) / h, 0, 1)
            for x, c, h in zip((errors, excesses), cutoffs, widths, strict=True)
        ], axis=0))  # fmt: skip
        value = predicted(plan, list(zip(requirements, widths, strict=True)), float(score))
        if value > best[2] + 1e-6:
            best = (f"{share:g}", widths, value)
    return best[0], best[1]


@pytest.mark.parametrize("bound", ["sharp", "rescaled", "paper"])
@pytest.mark.parametrize("n", [6000, 40_000])
def test_the_chosen_ramps_are_those_of_a_brute_force_search(bound: str, n: int) -> None:
    rng = np.random.default_rng(7)
    errors, excesses = rng.normal(0.15, 0.02, 41), rng.normal(-0.1, 0.03, 41)
    errors[:2] = 0.4  # two invalid pilots: above the cutoff, and never among the middle ones
    plan = plan_of(n=n, bound=bound)
    chosen = choose_ramps(plan, (ERROR, EXCESS), pilots_of(errors, excesses))
    share, widths = by_hand(plan, errors, excesses)
    assert chosen.share == share
    assert [r.ramp for r in chosen.requirements] == pytest.approx(widths, rel=1e-3)
    # Rounded down to four digits, so that they can be written and are no wider than there is room.
    assert all(float(r.ramp or 0.0) <= w for r, w in zip(chosen.requirements, widths, strict=True))
    assert share not in (WIDTHS[0], WIDTHS[-1])  # the best one is none of the ends


def test_no_ramps_that_were_tried_have_a_larger_bound_and_records_are_the_fewest() -> None:
    rng = np.random.default_rng(8)
    plan = plan_of(n=9000)
    pilots = pilots_of(rng.normal(0.18, 0.02, 30), rng.normal(-0.1, 0.02, 30))
    tried = ramps_tried(plan, (ERROR, EXCESS), pilots)
    chosen = choose_ramps(plan, (ERROR, EXCESS), pilots)
    assert chosen.bound == max(one.bound for one in tried) > 0.8
    assert chosen in tried
    needed = chosen.records(plan)
    assert needed is not None
    assert needed < plan.n
    for n, enough in ((needed, True), (needed - 1, False)):
        # Its ramps are given, so that one thing is tried.
        (same,) = ramps_tried(replace(plan, n=n), chosen.requirements, pilots)
        assert (same.bound > 0.8) is enough
    # Scores below the target do not validate it on any number of records.
    assert tried[0].records(plan) is None


def test_a_ramp_that_is_given_stays_and_the_others_follow() -> None:
    rng = np.random.default_rng(9)
    pilots = pilots_of(rng.normal(0.15, 0.02, 20), rng.normal(-0.1, 0.02, 20))
    given = replace(EXCESS, ramp=0.05)
    chosen = choose_ramps(plan_of(), (ERROR, given), pilots)
    assert chosen.requirements[1] == given
    assert chosen.requirements[0].ramp is not None


def test_a_ramp_ends_at_the_lower_bound() -> None:
    pilots = pilots_of(np.full(20, 0.02))
    tried = ramps_tried(plan_of(n=300), (ERROR,), pilots)
    # Twice and one and a half times 0.25 are cut to 0.27, which is tried once.
    assert [one.requirements[0].ramp for one in tried][:2] == [0.27, 0.25]
    assert len(tried) == len(WIDTHS) - 2


def test_pilots_that_do_not_reach_the_cutoff_are_no_ground_to_choose_on() -> None:
    with pytest.raises(RegistryError, match=r"'?error'?: a ramp falls from the cutoff 0\.27"):
        choose_ramps(plan_of(), (ERROR,), pilots_of(np.full(5, 0.27)))


def test_ramps_are_chosen_for_smooth_mode_alone() -> None:
    direct = plan_of(mode="direct")
    with pytest.raises(RegistryError, match="chosen for smooth mode, and the mode is direct"):
        choose_ramps(direct, (ERROR,), pilots_of(np.full(5, 0.1)))
