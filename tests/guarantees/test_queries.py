"""Ratios of means and correlations at the limit: no more errors than the level (theory section 1).

The release is known, and its answer a constant; every trial is a target of its own.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.evidence.releases import gather_evidence
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import measure_query
from proxyguard.losses.query import BoundedQuery, CodedRecords, Denominator, Standard
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.test import ComponentTest

pytestmark = pytest.mark.guarantee

LEVEL = 0.05
N = 200
TESTS = ("betting", "empirical_bernstein", "bentkus", "hoeffding", "betting_fixed")
RATIO = BoundedQuery("q", 0.0, 10.0, "a", per=Denominator("b", 0.0, 4.0))
PRODUCT = BoundedQuery("q", -4.0, 4.0, product=(Standard("a", 5.0, 2.0), Standard("b", 1.0, 1.0)))
PART = RequirementPart.model_validate(
    {"name": "q", "form": "query", "limit": "0.5", "query": {"share": {"a": "1"}}}
)  # fmt: skip


def paid_by_the_day(rng, shape):
    """Costs of 1.5 to 2.5 a day, 2 in the mean, of 0 to 4 days."""
    b = rng.choice([0.0, 1.0, 3.0, 4.0], shape)
    return b * rng.uniform(1.5, 2.5, shape), b


def fixed_price(rng, shape):
    """A ratio of 2 where nothing varies but the days."""
    return np.full(shape, 4.0), rng.choice([0.0, 4.0], shape)


def four_corners(rng, shape):
    """Products of 2.25 and -2.25, alike in 70 % of records: their mean is 0.9."""
    first, alike = rng.choice([-1.5, 1.5], shape), rng.random(shape) < 0.7
    return 5.0 + 2.0 * first, 1.0 + np.where(alike, first, -first)


LAWS = {
    "costs by the day": (RATIO, paid_by_the_day, 2.0),
    "a fixed price": (RATIO, fixed_price, 2.0),
    "four corners": (PRODUCT, four_corners, 0.9),
}


def losses_of(query, a, b, answer, side):
    """The losses of one side, a trial in each row, by the measure that an audit uses."""
    measure = measure_query(PART, query, limit="0.5", slack=None)[side]
    records = CodedRecords(pd.DataFrame({"a": a.ravel(), "b": b.ravel()}))
    return measure.requirement, measure.of_query_values(query.values(records), answer).reshape(
        a.shape
    )


def errors(requirement, losses, test, *, seed=1):
    """How many trials were validated, and in how many a violation was found."""
    reading = Reading(
        requirements=(requirement,), design=pg.Iid(), tests=(ComponentTest(test),), level=LEVEL,
        violation_level=LEVEL, seed=seed,
    )  # fmt: skip
    evidence = gather_evidence(pg.LossArray(losses[:, :, None]), reading)
    found = (evidence.pvalues <= LEVEL, evidence.violation_pvalues <= LEVEL)
    return tuple(int(np.sum(f)) for f in found)


@pytest.mark.parametrize("side", [0, 1], ids=["above", "below"])
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("law", LAWS)
def test_a_target_at_the_limit(law, test, side, within_budget, repeat):
    query, sample, true = LAWS[law]
    trials = repeat(4000)
    a, b = sample(np.random.default_rng(301), (trials, N))
    answer = true - 0.5 if side == 0 else true + 0.5
    validated, violated = errors(*losses_of(query, a, b, answer, side), test)
    assert within_budget(validated, trials, LEVEL)
    assert within_budget(violated, trials, LEVEL)


@pytest.mark.parametrize("side", [0, 1], ids=["above", "below"])
@pytest.mark.parametrize("law", LAWS)
def test_away_from_the_limit_it_is_decided(law, side, repeat):
    query, sample, true = LAWS[law]
    trials = repeat(400)
    a, b = sample(np.random.default_rng(302), (trials, 4 * N))
    validated, _ = errors(*losses_of(query, a, b, true, side), "betting")
    far = true - 1.0 if side == 0 else true + 1.0
    _, violated = errors(*losses_of(query, a, b, far, side), "betting")
    assert min(validated, violated) > 0.8 * trials


def visited(rng, trials):
    """Days of 1 and 3, half of the persons each, at 3 and at 5/3 a day: 2 per person and day.

    Who has three days was sampled three times as often and weighs a third.
    """
    b = rng.choice([1.0, 3.0], (trials, N), p=[0.25, 0.75])
    a = np.where(b == 1.0, 3.0, 5.0) * rng.uniform(0.5, 1.5, b.shape)
    return a, b, np.where(b == 1.0, 3.0, 1.0)


def test_records_that_weigh_are_averaged_as_persons(within_budget, beyond_doubt, repeat):
    # Per record it is 4.5 over 2.5, which is less: the twin, without weights, validates that.
    trials = repeat(1200)
    a, b, weights = visited(np.random.default_rng(306), trials)
    requirement, losses = losses_of(RATIO, a, b, 1.5, 0)
    reading = Reading(
        requirements=(requirement,), design=pg.Weighted(max_weight=3, origin="design"),
        tests=(ComponentTest.BETTING,), level=LEVEL, violation_level=LEVEL,
    )  # fmt: skip
    found = [
        gather_evidence(pg.LossArray(row[None, :, None], pg.Records(weights=w)), reading)
        for row, w in zip(losses, weights, strict=True)
    ]
    validated = sum(int(e.pvalues[0, 0] <= LEVEL) for e in found)
    violated = sum(int(e.violation_pvalues[0, 0] <= LEVEL) for e in found)
    assert within_budget(validated, trials, LEVEL)
    assert within_budget(violated, trials, LEVEL)
    assert beyond_doubt(errors(requirement, losses, "betting")[0], trials, LEVEL)


def test_twin_the_targets_own_mean_below_the_line(within_budget, beyond_doubt, repeat):
    # As if the target's mean of b were known: each record's own b is left out of the variance.
    trials = repeat(2000)
    a, b = fixed_price(np.random.default_rng(303), (trials, N))
    requirement, losses = losses_of(RATIO, a, b, 1.5, 0)
    own = np.broadcast_to(b.mean(axis=1, keepdims=True), b.shape)
    _, plugged = losses_of(RATIO, a, own, 1.5, 0)
    assert within_budget(errors(requirement, losses, "betting")[0], trials, LEVEL)
    assert beyond_doubt(errors(requirement, plugged, "betting")[0], trials, LEVEL)


def test_twin_standardised_by_the_targets_own_moments(within_budget, beyond_doubt, repeat):
    # The target's deviations are 1.5 of the registered ones: its own hide that.
    trials = repeat(2000)
    a, b = four_corners(np.random.default_rng(304), (trials, N))
    requirement, losses = losses_of(PRODUCT, a, b, 0.4, 0)

    def own(x, centre, scale):
        spread = x.std(axis=1, keepdims=True)
        return centre + scale * (x - x.mean(axis=1, keepdims=True)) / spread

    _, hidden = losses_of(PRODUCT, own(a, 5.0, 2.0), own(b, 1.0, 1.0), 0.4, 0)
    assert within_budget(errors(requirement, losses, "betting")[0], trials, LEVEL)
    assert beyond_doubt(errors(requirement, hidden, "betting")[0], trials, LEVEL)


def test_twin_the_targets_ratio_in_place_of_the_releases(beyond_doubt, repeat):
    # The answer is to be frozen first: an answer that is read off the target agrees with it.
    trials = repeat(2000)
    a, b = paid_by_the_day(np.random.default_rng(305), (trials, N))
    rows = [
        losses_of(RATIO, x[None], y[None], float(x.mean() / y.mean()), 0)
        for x, y in zip(a, b, strict=True)
    ]
    losses = np.concatenate([row for _, row in rows])
    assert beyond_doubt(errors(rows[0][0], losses, "betting")[0], trials, LEVEL)
