"""Theorem 6 and its rescaled form: a score rate less an allowance for contamination."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import proxyguard as pg
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.contamination import chernoff_ceiling
from proxyguard.modes.direct import certify_direct, certify_rescaled
from proxyguard.modes.evidence import DirectEvidence
from proxyguard.registry.budget import direct_budget

pytestmark = pytest.mark.guarantee

ALPHA, TARGET = 0.05, 0.8
BOUNDS = {"paper": certify_direct, "rescaled": certify_rescaled}


def passes(bound: str, n_releases: int, kappa: float, share: str) -> np.ndarray:
    """Return for every favorable count whether the real certificate lies above the target."""
    budget = direct_budget("0.05", target_share=share)
    return np.array([
        BOUNDS[bound](
            DirectEvidence(favorable=k, n_releases=n_releases, kappa=kappa, score=""), budget
        ).value > TARGET
        for k in range(n_releases + 1)
    ])  # fmt: skip


def favorable(
    rng: np.random.Generator, trials: int, n_releases: int, kappa: float, b: float
) -> np.ndarray:
    """Return favorable counts at reliability ``TARGET`` under the two-point law."""
    bad = rng.random(trials) < kappa / b
    return rng.binomial(n_releases, np.where(bad, 1 - (1 - TARGET) * (1 - b), TARGET))


# The shares are alpha_Z/alpha. The paper's bound has no room at larger kappa.
@pytest.mark.parametrize(
    ("bound", "n_releases", "kappa", "share"),
    [
        ("paper", 1000, 0.001, "0.5"),
        ("paper", 1000, 0.005, "0.9"),
        ("rescaled", 1000, 0.005, "0.5"),
        ("rescaled", 1000, 0.01, "0.9"),
        ("rescaled", 250, 0.005, "0.5"),
    ],
)
def test_the_two_point_law(bound, n_releases, kappa, share, worst_share, within_budget):
    trials = 40_000
    decision = passes(bound, n_releases, kappa, share)
    critical = int(np.argmax(decision))
    assert decision[critical]  # some count validates
    b, chance = worst_share(critical, n_releases, TARGET, kappa)
    counts = favorable(np.random.default_rng(601), trials, n_releases, kappa, b)
    errors = int(decision[counts].sum())
    assert within_budget(errors, trials, ALPHA)
    assert stats.binomtest(errors, trials, chance).pvalue > 1e-4  # the law is what it says


@pytest.mark.parametrize("bound", BOUNDS)
def test_twin_without_the_allowance(bound, worst_share, beyond_doubt):
    # kappa = .04: the invalid releases need only pass on one target in eight.
    n_releases, kappa, trials = 250, 0.04, 4000
    decision = passes(bound, n_releases, 0.0, "0.5")
    b, _ = worst_share(int(np.argmax(decision)), n_releases, TARGET, kappa)
    counts = favorable(np.random.default_rng(602), trials, n_releases, kappa, b)
    assert beyond_doubt(int(decision[counts].sum()), trials, ALPHA)


def false_pass_scores(rng: np.random.Generator) -> tuple[int, np.ndarray, np.ndarray]:
    """Return (favorable, risks, target) of the paper's false-pass diagnostic (studies B13)."""
    valid = rng.random(250) < TARGET
    risk = np.where(valid, rng.uniform(0.30, 0.40, 250), rng.uniform(0.5005, 0.54, 250))
    target = np.sort(rng.random(1000))
    means = np.searchsorted(target, risk, side="right") / 1000
    return int(np.sum(means <= 0.49)), risk, target


def test_twin_the_papers_false_pass_diagnostic(beyond_doubt, two_sample):
    rng = np.random.default_rng(9932801)
    counts = np.array([false_pass_scores(rng)[0] for _ in range(2000)])
    unsubtracted = int(np.sum(clopper_pearson_lower(counts, 250, alpha=0.005) > TARGET))
    assert beyond_doubt(unsubtracted, 2000, ALPHA)
    assert two_sample(unsubtracted, 2000, 0.0805, 2000) > 1e-4  # paper: 161 of 2,000
    # kappa = .8187, an allowance of 1: the certificate says nothing, and is right.
    assert chernoff_ceiling(0.49, 0.5, 1000) == pytest.approx(0.8187, abs=5e-5)
    assert not passes("paper", 250, chernoff_ceiling(0.49, 0.5, 1000), "0.9").any()


@pytest.mark.parametrize("bound", BOUNDS)
def test_certify_on_the_false_pass_losses(bound, within_budget):
    rng = np.random.default_rng(603)
    trials = 120
    loss = pg.Requirement(name="loss", low=0, high=1, limit=0.5, slack=0.05)
    errors = 0
    for trial in range(trials):
        _, risk, target = false_pass_scores(rng)
        found = pg.certify(
            target[:, None] <= risk[:, None, None], [loss], mode="direct", bound=bound,
            score="slack", test="chernoff", target_share="0.9", reliability_target=TARGET,
            alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)


@pytest.mark.parametrize("bound", BOUNDS)
def test_certify_under_the_two_point_law(bound, one_record_losses, worst_share, within_budget):
    trials, n_releases, kappa = 500, 300, 0.002
    rng = np.random.default_rng(604)
    decision = passes(bound, n_releases, kappa, "0.8")
    b, _ = worst_share(int(np.argmax(decision)), n_releases, TARGET, kappa)
    error = pg.Requirement(name="error", low=0, high=1, limit=0.998, two_valued=True)
    errors = 0
    for trial in range(trials):
        losses = one_record_losses(rng, rng.random(n_releases) < TARGET, kappa=kappa, share=b)
        found = pg.certify(
            losses, [error], mode="direct", bound=bound, target_share="0.8", threshold="0.002001",
            reliability_target=TARGET, alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        assert (found.lower.value > TARGET) == decision[int(found.lower.steps[0][1])]
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)
