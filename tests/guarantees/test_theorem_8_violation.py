"""Theorem 8 and theory section 4: a reliable mechanism is rarely called unreliable."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import proxyguard as pg
from proxyguard.exact.binomial import clopper_pearson_upper
from proxyguard.exact.evalues import mixture_evalues
from proxyguard.exact.mean import binomial_pvalue
from proxyguard.exact.multiplicity import holm
from proxyguard.exact.sharp import critical_count
from proxyguard.modes.count import certify_count_violation
from proxyguard.modes.evidence import DirectEvidence
from proxyguard.modes.violation import certify_direct_violation, certify_violation
from proxyguard.registry.budget import (
    count_violation_budget,
    direct_violation_budget,
    violation_budget,
)

pytestmark = pytest.mark.guarantee

BETA, TARGET = 0.05, 0.8
HOLM_BUDGET = violation_budget("0.05")


def simulate(
    rng: np.random.Generator,
    trials: int,
    n_releases: int,
    n: int,
    limit: float,
    n_requirements: int,
) -> np.ndarray:
    """Return violation p-values (trials, R, J): valid means at the limit, others far above.

    The violation null includes the limit itself, so this is its boundary; reliability is
    exactly ``TARGET``, and an invalid release fails its first requirement only.
    """
    valid = rng.random((trials, n_releases)) < TARGET
    risk = np.full((trials, n_releases, n_requirements), limit)
    risk[..., 0] = np.where(valid, limit, min(1.0, 3 * limit))
    counts = rng.binomial(n, risk)
    return binomial_pvalue(n - np.arange(n + 1), n, 1 - limit)[counts]


def unreliable(detected: np.ndarray, n_releases: int) -> np.ndarray:
    """Return the real decision for each number of releases with a detected violation."""
    table = np.array([
        certify_violation(
            np.arange(n_releases)[:, None] < w, HOLM_BUDGET, reliability_target=TARGET
        ).value < TARGET
        for w in range(n_releases + 1)
    ])  # fmt: skip
    return table[detected]


# Releases at which P(Bin(R, .8) <= k) comes close to beta_M = .025.
@pytest.mark.parametrize(("n_releases", "n_requirements"), [(52, 1), (52, 3), (190, 1)])
def test_holm_at_the_target(n_releases, n_requirements, within_budget):
    trials = 2500
    rng = np.random.default_rng(801)
    pvalues = simulate(rng, trials, n_releases, 400, 0.3, n_requirements)
    found = np.stack([holm(p.ravel(), alpha=0.025).reshape(p.shape) for p in pvalues])
    errors = int(unreliable(found.any(axis=2).sum(axis=1), n_releases).sum())
    assert within_budget(errors, trials, BETA)
    assert errors > 0.2 * 0.025 * trials


def test_twin_without_inner_holm(beyond_doubt):
    trials, n_releases = 1000, 190
    pvalues = simulate(np.random.default_rng(802), trials, n_releases, 400, 0.3, 3)
    detected = (pvalues <= 0.025).any(axis=2).sum(axis=1)
    assert beyond_doubt(int(unreliable(detected, n_releases).sum()), trials, BETA)


def test_certify_names_violations_on_losses(within_budget):
    rng = np.random.default_rng(803)
    trials, n_releases, n = 300, 52, 150
    error = pg.Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)
    errors = 0
    for trial in range(trials):
        risk = np.where(rng.random(n_releases) < TARGET, 0.2999, 1.0)
        losses = rng.random((n_releases, n, 1)) < risk[:, None, None]
        found = pg.certify(
            losses, [error], mode="named", reliability_target=TARGET, beta=BETA, seed=trial
        )
        errors += found.decision is pg.Decision.VIOLATION
    assert within_budget(errors, trials, BETA)


# Direct violation: the roles are swapped, so valid releases contaminate and the two-point law
# of theory section 2 holds with 1 - TARGET in place of the target.


def violating(
    rng: np.random.Generator, trials: int, n_releases: int, kappa: float, b: float
) -> np.ndarray:
    bad = rng.random(trials) < kappa / b
    return rng.binomial(n_releases, np.where(bad, 1 - TARGET * (1 - b), 1 - TARGET))


def direct_violation(count: int, n_releases: int, kappa: float) -> bool:
    evidence = DirectEvidence(favorable=count, n_releases=n_releases, kappa=kappa, score="")
    budget = direct_violation_budget("0.05")
    return certify_direct_violation(evidence, budget, reliability_target=TARGET).value < TARGET


@pytest.mark.parametrize(("n_releases", "kappa"), [(30, 0.01), (250, 0.02), (1000, 0.01)])
def test_direct_violation_under_the_worst_law(n_releases, kappa, worst_share, within_budget):
    trials = 40_000
    critical = int(critical_count(n_releases, target=1 - TARGET, kappa=kappa, alpha=BETA))
    assert direct_violation(critical, n_releases, kappa)
    assert not direct_violation(critical - 1, n_releases, kappa)
    b, chance = worst_share(critical, n_releases, 1 - TARGET, kappa)
    counts = violating(np.random.default_rng(804), trials, n_releases, kappa, b)
    errors = int(np.sum(counts >= critical))
    assert within_budget(errors, trials, BETA)
    assert errors > 0.5 * BETA * trials
    assert stats.binomtest(errors, trials, chance).pvalue > 1e-4


def test_twin_direct_violation_without_kappa(worst_share, beyond_doubt):
    trials, n_releases, kappa = 10_000, 250, 0.02
    oracle = next(w for w in range(n_releases + 1) if direct_violation(w, n_releases, 0.0))
    b, _ = worst_share(oracle, n_releases, 1 - TARGET, kappa)
    counts = violating(np.random.default_rng(805), trials, n_releases, kappa, b)
    assert beyond_doubt(int(np.sum(counts >= oracle)), trials, BETA)


def certified_violations(one_record_losses, mode: str, trials: int, b: float, **choices) -> int:
    """Count false violations of `certify` under the two-point law, by one-record targets."""
    n_releases, kappa = 250, 0.02
    # A release violates when it errs on the one record: q = .02 there, and 1 otherwise.
    # Valid releases err with probability kappa, just at their limit; the others always do.
    error = pg.Requirement(name="error", low=0, high=1, limit=kappa, two_valued=True)
    rng = np.random.default_rng(806)
    errors = 0
    for trial in range(trials):
        invalid = rng.random(n_releases) < 1 - TARGET
        losses = ~one_record_losses(rng, invalid, kappa=kappa, share=b)
        found = pg.certify(
            losses, [error], mode=mode, reliability_target=TARGET, beta=BETA,
            violation_threshold="0.020001", seed=trial, **choices,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VIOLATION
    return errors


def test_certify_direct_violation(one_record_losses, worst_share, within_budget):
    critical = int(critical_count(250, target=1 - TARGET, kappa=0.020001, alpha=BETA))
    b, _ = worst_share(critical, 250, 1 - TARGET, 0.02)
    errors = certified_violations(one_record_losses, "direct", 400, b)
    assert within_budget(errors, 400, BETA)
    assert errors > 0.3 * BETA * 400


# The e-value form: at most m* releases are valid, outside beta_Z.


def count_violation(counts: np.ndarray, n_releases: int, t: str, share: str) -> np.ndarray:
    budget = count_violation_budget("0.05", target_share=share)
    table = {
        int(w): certify_count_violation(
            mixture_evalues(np.arange(n_releases) >= w, thresholds=[Fraction(t)]),
            budget,
            reliability_target=TARGET,
        ).value < TARGET
        for w in np.unique(counts)
    }  # fmt: skip
    return np.array([table[int(w)] for w in counts])


@pytest.mark.parametrize("b", [0.1, 0.2, 0.3, 1.0])
def test_evalue_violation_count(b, within_budget):
    trials, n_releases = 20_000, 250
    counts = violating(np.random.default_rng(807), trials, n_releases, 0.01, b)
    errors = int(count_violation(counts, n_releases, "0.01", "0.8").sum())
    assert within_budget(errors, trials, BETA)


def test_twin_evalue_violation_without_contamination(beyond_doubt):
    # Every release that scores is taken for invalid.
    trials, n_releases = 4000, 250
    counts = violating(np.random.default_rng(808), trials, n_releases, 0.02, 0.12)
    upper = clopper_pearson_upper(n_releases - counts, n_releases, alpha=0.01)
    assert beyond_doubt(int(np.sum(upper < TARGET)), trials, BETA)


def test_certify_evalue_violation(one_record_losses, within_budget):
    errors = certified_violations(one_record_losses, "count", 250, 0.3, target_share="0.8")
    assert within_budget(errors, 250, BETA)
