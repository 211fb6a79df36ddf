"""The sharp direct certificate (theory section 2): no split, and no slack to spare."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import proxyguard as pg
from proxyguard.exact.sharp import critical_count
from proxyguard.modes.direct import certify_sharp
from proxyguard.modes.evidence import DirectEvidence
from proxyguard.registry.budget import sharp_budget

pytestmark = pytest.mark.guarantee

ALPHA, TARGET = 0.05, 0.8
BUDGET = sharp_budget("0.05")


def validates(favorable: int, n_releases: int, kappa: float, target: float = TARGET) -> bool:
    evidence = DirectEvidence(favorable=favorable, n_releases=n_releases, kappa=kappa, score="")
    return certify_sharp(evidence, BUDGET, reliability_target=target).value > target


def favorable(
    rng: np.random.Generator, trials: int, n_releases: int, target: float, kappa: float, b: float
) -> np.ndarray:
    bad = rng.random(trials) < kappa / b
    return rng.binomial(n_releases, np.where(bad, 1 - (1 - target) * (1 - b), target))


# Sizes chosen so that the steps of the count leave little of alpha unspent.
@pytest.mark.parametrize(
    ("n_releases", "target", "kappa"),
    [(30, 0.8, 0.005), (107, 0.8, 0.01), (250, 0.8, 0.02), (1000, 0.8, 0.01), (400, 0.5, 0.03)],
)
def test_the_worst_two_point_law(n_releases, target, kappa, worst_share, within_budget):
    trials = 40_000
    critical = int(critical_count(n_releases, target=target, kappa=kappa, alpha=ALPHA))
    assert validates(critical, n_releases, kappa, target)
    assert not validates(critical - 1, n_releases, kappa, target)
    b, chance = worst_share(critical, n_releases, target, kappa)
    assert 0.6 * ALPHA < chance <= ALPHA
    counts = favorable(np.random.default_rng(201), trials, n_releases, target, kappa, b)
    errors = int(np.sum(counts >= critical))
    assert within_budget(errors, trials, ALPHA)
    assert errors > 0.6 * ALPHA * trials
    assert stats.binomtest(errors, trials, chance).pvalue > 1e-4


@pytest.mark.parametrize(("n_releases", "kappa"), [(250, 0.02), (1000, 0.01)])
def test_twin_without_kappa(n_releases, kappa, worst_share, beyond_doubt):
    trials = 20_000
    oracle = next(k for k in range(n_releases + 1) if validates(k, n_releases, 0.0))
    b, _ = worst_share(oracle, n_releases, TARGET, kappa)
    counts = favorable(np.random.default_rng(202), trials, n_releases, TARGET, kappa, b)
    assert beyond_doubt(int(np.sum(counts >= oracle)), trials, ALPHA)


def test_certify_under_the_worst_law(one_record_losses, worst_share, within_budget, repeat):
    trials, n_releases, kappa = repeat(450), 107, 0.01
    critical = int(critical_count(n_releases, target=TARGET, kappa=kappa, alpha=ALPHA))
    b, _ = worst_share(critical, n_releases, TARGET, kappa)
    # One record, F(0) = 1 - .99 = kappa: a release scores when it does not err.
    error = pg.Requirement(name="error", low=0, high=1, limit=0.99, two_valued=True)
    rng = np.random.default_rng(203)
    errors = 0
    for trial in range(trials):
        losses = one_record_losses(rng, rng.random(n_releases) < TARGET, kappa=kappa, share=b)
        found = pg.certify(
            losses, [error], reliability_target=TARGET, alpha=ALPHA, beta=None,
            threshold="0.010001", seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)
    assert errors > 0.5 * ALPHA * trials


@pytest.mark.parametrize("test", ["binomial", "bentkus", "betting", "randomized_binomial"])
def test_certify_with_releases_at_their_limits(test, within_budget, repeat):
    # Ten groups of releases, each with its own errors on the shared records.
    trials, n_releases, n = repeat(120), 100, 120
    error = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=test == "binomial")
    rng = np.random.default_rng(204)
    errors = 0
    for trial in range(trials):
        group = rng.integers(10, size=n_releases)
        losses = (rng.random((10, n, 1)) < 0.2)[group]
        losses[rng.random(n_releases) < TARGET] = False
        found = pg.certify(
            losses, [error], test=test, reliability_target=TARGET, alpha=ALPHA, beta=None,
            seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)
