"""Theorem 5: named releases certify a mechanism at ``alpha_R + alpha_M``."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import proxyguard as pg
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.mean import binomial_pvalue
from proxyguard.exact.multiplicity import holm

pytestmark = pytest.mark.guarantee

ALPHA, ALPHA_R, ALPHA_M, TARGET = 0.05, 0.025, 0.025, 0.8
ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.1, two_valued=True)


def attained(n_releases: int) -> float:
    """Return the size of the outer binomial test, the part of ``alpha_M`` it can spend."""
    tails = stats.binom.sf(np.arange(n_releases + 1) - 1, n_releases, TARGET)
    return float(tails[tails <= ALPHA_M].max(initial=0.0))


def simulate(
    rng: np.random.Generator, trials: int, n_releases: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (valid, p-values) at reliability ``TARGET``, invalid means exactly at the limit.

    Near-boundary design of studies B8 (bad risk .100), with one requirement.
    """
    valid = rng.random((trials, n_releases)) < TARGET
    counts = rng.binomial(n, np.where(valid, 0.02, 0.1))
    return valid, binomial_pvalue(np.arange(n + 1), n, 0.1)[counts]


def validated(counts: np.ndarray, n_releases: int) -> np.ndarray:
    return clopper_pearson_lower(counts, n_releases, alpha=ALPHA_M) > TARGET


# Sizes of the outer test close to alpha_M: .0225, .0248 and .0250.
@pytest.mark.parametrize("n_releases", [17, 48, 190])
def test_reliability_at_the_target(n_releases, within_budget):
    trials = 4000
    _, pvalues = simulate(np.random.default_rng(501), trials, n_releases, 500)
    counts = np.array([holm(row, alpha=ALPHA_R).sum() for row in pvalues])
    errors = int(validated(counts, n_releases).sum())
    assert within_budget(errors, trials, ALPHA)
    assert errors > 0.5 * attained(n_releases) * trials


def test_no_invalid_release_is_recognized(within_budget):
    trials = 3000
    valid, pvalues = simulate(np.random.default_rng(502), trials, 100, 500)
    errors = sum(
        bool(np.any(holm(row, alpha=ALPHA_R) & ~good))
        for row, good in zip(pvalues, valid, strict=True)
    )
    assert within_budget(errors, trials, ALPHA_R)


def test_twin_without_the_inner_correction(within_budget, beyond_doubt, repeat):
    # With 3,000 releases, 15 of 600 invalid ones pass an uncorrected .025, most of the
    # standard deviation 21.9 of the number of valid releases.
    trials, n_releases = repeat(2000, share=2), 3000
    rng = np.random.default_rng(503)
    _, pvalues = simulate(rng, trials, n_releases, 2000)
    corrected = np.array([holm(row, alpha=ALPHA_R).sum() for row in pvalues])
    uncorrected = np.sum(pvalues <= ALPHA_R, axis=1)
    assert within_budget(int(validated(corrected, n_releases).sum()), trials, ALPHA)
    assert beyond_doubt(int(validated(uncorrected, n_releases).sum()), trials, ALPHA)


def test_twin_without_the_outer_correction(beyond_doubt):
    trials, n_releases = 1000, 48
    _, pvalues = simulate(np.random.default_rng(504), trials, n_releases, 500)
    counts = np.array([holm(row, alpha=ALPHA_R).sum() for row in pvalues])
    assert beyond_doubt(int(np.sum(counts / n_releases > TARGET)), trials, ALPHA)


@pytest.mark.parametrize("shared", [True, False], ids=["comonotone", "independent"])
def test_certify_named_on_losses(shared, within_budget, repeat):
    rng = np.random.default_rng(505)
    trials, n_releases, n = repeat(400), 48, 120
    errors = 0
    for trial in range(trials):
        risk = np.where(rng.random(n_releases) < TARGET, 0.0, 0.1)
        losses = rng.random((n, 1) if shared else (n_releases, n, 1)) < risk[:, None, None]
        found = pg.certify(
            losses, [ERROR], mode="named", reliability_target=TARGET, alpha=ALPHA, seed=trial
        )
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)
