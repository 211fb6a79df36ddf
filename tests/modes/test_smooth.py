"""Ramp widths chosen on pilots: the rule against a computation of its own, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from conformance.ramps import ramps_by_hand
from proxyguard import Requirement
from proxyguard.errors import RegistryError
from proxyguard.modes.claim import Claim
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.modes.smooth import WIDTHS, Pilots, best_ramps, ramps_tried

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


@pytest.mark.parametrize("bound", ["sharp", "rescaled", "paper"])
@pytest.mark.parametrize("n", [6000, 40_000])
def test_the_chosen_ramps_are_those_of_a_brute_force_search(bound: str, n: int) -> None:
    rng = np.random.default_rng(7)
    errors, excesses = rng.normal(0.15, 0.02, 41), rng.normal(-0.1, 0.03, 41)
    errors[:2] = 0.4  # two invalid pilots: above the cutoff, and never among the middle ones
    plan = plan_of(n=n, bound=bound)
    chosen = best_ramps(plan, (ERROR, EXCESS), pilots_of(errors, excesses))
    share, widths = ramps_by_hand(plan, [(ERROR, errors), (EXCESS, excesses)])
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
    chosen = best_ramps(plan, (ERROR, EXCESS), pilots)
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


@pytest.mark.parametrize("bound", ["sharp", "rescaled", "paper"])
def test_where_no_width_has_a_bound_the_widest_is_taken(bound: str) -> None:
    pilots = pilots_of(np.linspace(0.1, 0.26, 20))
    plan = plan_of(n=40, bound=bound)
    assert {one.bound for one in ramps_tried(plan, (ERROR,), pilots)} == {0.0}
    assert best_ramps(plan, (ERROR,), pilots).share == WIDTHS[0]


@pytest.mark.parametrize("bound", ["sharp", "rescaled", "paper"])
def test_a_bound_is_known_to_exceed_a_reliability_without_being_computed(bound: str) -> None:
    pilots = pilots_of(np.random.default_rng(4).normal(0.18, 0.02, 20))
    plan = plan_of(n=8000, bound=bound)
    claim, budget = plan.claim, plan.levels((ERROR,)).lower
    for tried in ramps_tried(plan, (ERROR,), pilots):
        for reliability in (0.0, 0.3, 0.8, 0.9, tried.bound - 1e-6, tried.bound + 1e-6):
            above = claim.exceeds(tried.scores, budget, reliability)
            assert above is (tried.bound > reliability)


def test_a_ramp_that_is_given_stays_and_the_others_follow() -> None:
    rng = np.random.default_rng(9)
    pilots = pilots_of(rng.normal(0.15, 0.02, 20), rng.normal(-0.1, 0.02, 20))
    given = replace(EXCESS, ramp=0.05)
    chosen = best_ramps(plan_of(), (ERROR, given), pilots)
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
        best_ramps(plan_of(), (ERROR,), pilots_of(np.full(5, 0.27)))


def test_ramps_are_chosen_for_smooth_mode_alone() -> None:
    direct = plan_of(mode="direct")
    with pytest.raises(RegistryError, match="chosen for smooth mode, and the mode is direct"):
        best_ramps(direct, (ERROR,), pilots_of(np.full(5, 0.1)))
