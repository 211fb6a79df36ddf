"""The e-value count (theory section 3): how many of these releases are valid, and of any subset."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.evalues import mixture_evalues
from proxyguard.modes.count import ValidCount, certify_count
from proxyguard.registry.budget import direct_budget

pytestmark = pytest.mark.guarantee

TARGET = 0.8
BUDGET = direct_budget("0.05", target_share="0.8")  # alpha_Z = .04, alpha_Q = .01
ALPHA_Z, ALPHA = 0.04, 0.05


def simulate(
    rng: np.random.Generator, n_releases: int, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (valid, p-values): invalid p-values are uniform and shared within a group."""
    valid = rng.random(n_releases) < TARGET
    pvalues = rng.random(groups)[rng.integers(groups, size=n_releases)]
    return valid, np.where(valid, 1e-6, pvalues)


def count_of(pvalues: np.ndarray, thresholds: tuple[str, ...]) -> ValidCount:
    return ValidCount(
        releases=tuple(str(r) for r in range(pvalues.size)),
        evalues=mixture_evalues(pvalues, thresholds=[Fraction(t) for t in thresholds]),
        alpha=BUDGET["alpha_Z"],
    )


# t = alpha_Z and equal p-values is the law that attains alpha_Z.
@pytest.mark.parametrize(
    ("thresholds", "groups"),
    [(("0.04",), 1), (("0.01",), 3), (("0.01",), 1), (("0.001", "0.01", "0.03"), 2)],
    ids=str,
)
def test_count_and_bound(thresholds, groups, within_budget, repeat):
    trials, n_releases = repeat(2000), 48
    rng = np.random.default_rng(301)
    overcounted = overstated = 0
    for _ in range(trials):
        valid, pvalues = simulate(rng, n_releases, groups)
        count = count_of(pvalues, thresholds)
        overcounted += count.at_least > valid.sum()
        overstated += certify_count(count, BUDGET, reliability_target=TARGET).value > TARGET
    assert within_budget(overcounted, trials, ALPHA_Z)
    assert within_budget(overstated, trials, ALPHA)
    if thresholds == ("0.04",):
        assert overcounted > 0.6 * ALPHA_Z * trials


def test_twin_every_favorable_score_counted_as_valid(beyond_doubt):
    trials, n_releases = 1000, 1000
    rng = np.random.default_rng(302)
    overcounted = overstated = 0
    for _ in range(trials):
        valid, pvalues = simulate(rng, n_releases, 5)
        favorable = int(np.sum(pvalues <= 0.04))
        overcounted += favorable > valid.sum()
        overstated += float(clopper_pearson_lower(favorable, n_releases, alpha=0.01)) > TARGET
    assert beyond_doubt(overcounted, trials, ALPHA_Z)
    assert beyond_doubt(overstated, trials, ALPHA)


def subsets(valid: np.ndarray, favorable: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Return subsets that a reader with every wish to be misled would pick."""
    return [
        np.ones(valid.size, dtype=bool),
        ~valid,
        favorable,
        favorable & ~valid,
        favorable & (~valid | (rng.random(valid.size) < 0.2)),
        rng.random(valid.size) < 0.5,
    ]


@pytest.mark.parametrize(("t", "groups"), [("0.04", 1), ("0.01", 1), ("0.01", 4)])
def test_any_subset_chosen_after_looking(t, groups, within_budget, repeat):
    trials, n_releases = repeat(1000), 40
    rng = np.random.default_rng(303)
    errors = 0
    for _ in range(trials):
        valid, pvalues = simulate(rng, n_releases, groups)
        count = count_of(pvalues, (t,))
        errors += any(
            count.of(np.flatnonzero(s).astype(str)) > np.sum(valid & s)
            for s in subsets(valid, pvalues <= float(t), rng)
        )
    assert within_budget(errors, trials, ALPHA_Z)


def test_twin_a_subset_counted_by_its_scores(beyond_doubt):
    trials, n_releases = 1000, 40
    rng = np.random.default_rng(304)
    errors = 0
    for _ in range(trials):
        valid, pvalues = simulate(rng, n_releases, 8)
        favorable = pvalues <= 0.04
        errors += any(
            np.sum(favorable & s) > np.sum(valid & s) for s in subsets(valid, favorable, rng)
        )
    assert beyond_doubt(errors, trials, ALPHA_Z)


@pytest.mark.parametrize(
    "choices",
    [
        {"test": "binomial", "thresholds": ["0.01"]},
        {"test": "binomial", "thresholds": ["0.001", "0.01", "0.03"]},
        {"test": "betting", "calibrator": "capital"},
        {"test": "betting_fixed", "calibrator": "capital"},
    ],
    ids=["threshold", "mixture", "betting capital", "fixed capital"],
)
def test_certify_on_losses(choices, within_budget):
    error = pg.Requirement(
        name="error", low=0, high=1, limit=0.3, two_valued=choices["test"] == "binomial"
    )
    rng = np.random.default_rng(305)
    trials, n_releases = 150, 40
    overcounted = overstated = misled = 0
    for trial in range(trials):
        losses = (rng.random((2, 120, 1)) < 0.3)[rng.integers(2, size=n_releases)]
        valid = rng.random(n_releases) < TARGET
        losses[valid] = False
        found = pg.certify(
            losses, [error], mode="count", target_share="0.8", reliability_target=TARGET,
            alpha=ALPHA, beta=None, seed=trial, **choices,
        )  # fmt: skip
        overcounted += found.count.at_least > valid.sum()
        overstated += found.decision is pg.Decision.VALIDATED
        wish = ~valid | (rng.random(n_releases) < 0.2)
        misled += found.count.of(np.flatnonzero(wish).astype(str)) > np.sum(valid & wish)
    assert within_budget(overcounted, trials, ALPHA_Z)
    assert within_budget(misled, trials, ALPHA_Z)
    assert within_budget(overstated, trials, ALPHA)
