"""Theorem 4: no validated release is invalid, whatever the dependence."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.mean import binomial_pvalue
from proxyguard.exact.multiplicity import holm

pytestmark = pytest.mark.guarantee

ALPHA = 0.05
TRIALS = 4000


def requirement(limit: float, name: str = "error") -> pg.Requirement:
    return pg.Requirement(name=name, low=0, high=1, limit=limit, two_valued=True)


def boundary_pvalues(seed: int, n_releases: int, n: int, limit: float) -> np.ndarray:
    """Return p-values of releases whose means equal their limit, (trials, releases)."""
    counts = np.random.default_rng(seed).binomial(n, limit, (TRIALS, n_releases))
    return binomial_pvalue(counts, n, limit)


@pytest.mark.parametrize(("n_releases", "n", "limit"), [(20, 1000, 0.5), (6, 500, 0.1)])
def test_holm_over_releases_at_their_limits(n_releases, n, limit, within_budget):
    pvalues = boundary_pvalues(401, n_releases, n, limit)
    errors = sum(bool(holm(row, alpha=ALPHA).any()) for row in pvalues)
    assert within_budget(errors, TRIALS, ALPHA)
    assert errors > 0.4 * ALPHA * TRIALS  # the law is close to the bound


def test_twin_without_holm(beyond_doubt):
    # The paper's calibration study has 44 % there (studies B1).
    pvalues = boundary_pvalues(402, 20, 1000, 0.5)
    assert beyond_doubt(int(np.sum((pvalues <= ALPHA).any(axis=1))), TRIALS, ALPHA)


def test_certify_releases_on_two_targets_both_directions(within_budget, beyond_doubt):
    # Every mean equals its limit: a validation is false, and so is a violation.
    rng = np.random.default_rng(403)
    trials = 300
    validated = violated = uncorrected = 0
    for trial in range(trials):
        members = {
            "one": pg.NamedReleases(rng.random((10, 400, 1)) < 0.5, [requirement(0.5)]),
            "two": pg.NamedReleases(
                rng.random((6, 300, 2)) < [0.2, 0.02],
                [requirement(0.2), requirement(0.1, "cost")],
            ),
        }
        found = pg.certify_releases(members, alpha=ALPHA, beta=ALPHA, seed=trial)
        validated += bool(found.validated)
        violated += any("error" in v.violated for v in found.verdicts)
        uncorrected += any(v.pvalue <= ALPHA for v in found.verdicts)
    assert within_budget(validated, trials, ALPHA)
    assert within_budget(violated, trials, ALPHA)
    assert beyond_doubt(uncorrected, trials, ALPHA)


def test_certify_releases_on_one_shared_target(within_budget):
    # One uniform a record drives all releases: their losses are comonotone.
    rng = np.random.default_rng(404)
    trials = 300
    errors = 0
    for trial in range(trials):
        risk = np.r_[np.full(4, 0.3), rng.uniform(0.3, 0.33, 4), np.full(4, 0.1)]
        losses = rng.random((500, 1)) < risk[:, None, None]
        found = pg.certify_releases(
            {"m": pg.NamedReleases(losses, [requirement(0.3)])}, alpha=ALPHA, seed=trial
        )
        errors += any(v.decision is pg.Decision.VALIDATED for v in found.verdicts[:8])
    assert within_budget(errors, trials, ALPHA)
