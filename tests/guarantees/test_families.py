"""Several mechanisms on one target: Holm for decisions, local levels for bounds."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.multiplicity import holm
from proxyguard.exact.sharp import critical_count, sharp_lower, sharp_pvalue

pytestmark = pytest.mark.guarantee

ALPHA, TARGET, H = 0.05, 0.8, 5


def favorable(
    rng: np.random.Generator, trials: int, n_releases: int, etas: np.ndarray, kappa: float, b: float
) -> np.ndarray:
    """Return favorable counts (trials, H); each mechanism has its own bad targets."""
    bad = rng.random((trials, etas.size)) < kappa / b
    return rng.binomial(n_releases, np.where(bad, 1 - (1 - etas) * (1 - b), etas))


def worst(worst_share, n_releases: int, kappa: float, alpha: float) -> float:
    critical = int(critical_count(n_releases, target=TARGET, kappa=kappa, alpha=alpha))
    return worst_share(critical, n_releases, TARGET, kappa)[0]


@pytest.mark.parametrize(("n_releases", "kappa"), [(250, 0.004), (1000, 0.003)])
def test_sharp_decisions_by_holm(n_releases, kappa, worst_share, within_budget, repeat):
    trials = repeat(5000)
    b = worst(worst_share, n_releases, kappa, ALPHA / H)
    rng = np.random.default_rng(1)
    counts = favorable(rng, trials, n_releases, np.full(H, TARGET), kappa, b)
    pvalues = sharp_pvalue(counts, n_releases, target=TARGET, kappa=kappa)
    errors = sum(bool(holm(row, alpha=ALPHA).any()) for row in pvalues)
    assert within_budget(errors, trials, ALPHA)
    assert errors > 0.4 * ALPHA * trials


def test_twin_each_mechanism_at_full_alpha(worst_share, beyond_doubt, repeat):
    trials, n_releases, kappa = repeat(2000), 250, 0.004
    b = worst(worst_share, n_releases, kappa, ALPHA)
    rng = np.random.default_rng(2)
    counts = favorable(rng, trials, n_releases, np.full(H, TARGET), kappa, b)
    pvalues = sharp_pvalue(counts, n_releases, target=TARGET, kappa=kappa)
    assert beyond_doubt(int((pvalues <= ALPHA).any(axis=1).sum()), trials, ALPHA)


@pytest.mark.parametrize("share", [H, 1], ids=["local levels", "twin: full alpha"])
def test_simultaneous_sharp_bounds(share, worst_share, within_budget, beyond_doubt):
    # Every bound must lie below its own reliability.
    trials, n_releases, kappa = 4000, 100, 0.004
    etas = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    b = worst(worst_share, n_releases, kappa, ALPHA / share)
    counts = favorable(np.random.default_rng(3), trials, n_releases, etas, kappa, b)
    lower = np.zeros(n_releases + 1)
    for k in np.unique(counts):
        lower[k] = sharp_lower(int(k), n_releases, kappa=kappa, alpha=ALPHA / share)
    errors = int((lower[counts] > etas).any(axis=1).sum())
    check = within_budget if share == H else beyond_doubt
    assert check(errors, trials, ALPHA)


ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)


def losses(rng: np.random.Generator, n_releases: int, etas: np.ndarray) -> dict[str, np.ndarray]:
    """Return losses of mechanisms on 100 shared records; invalid releases err at the limit."""
    shared = rng.random((2, 100, 1)) < 0.3
    found = {}
    for h, eta in enumerate(etas):
        one = shared[rng.integers(2, size=n_releases)]
        one[rng.random(n_releases) < eta] = False
        found[f"m{h}"] = one
    return found


@pytest.mark.parametrize(
    ("mode", "trials"), [("named", 250), ("direct", 60), ("count", 100), ("hybrid", 50)]
)
def test_certify_decisions(mode, trials, within_budget, repeat):
    rng = np.random.default_rng(4)
    trials, errors = repeat(trials), 0
    for trial in range(trials):
        family = pg.certify(
            losses(rng, 60, np.full(3, TARGET)), [ERROR], mode=mode, family="decisions",
            reliability_target=TARGET, alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        errors += pg.Decision.VALIDATED in family.decisions.values()
    assert within_budget(errors, trials, ALPHA)


def test_twin_certify_each_mechanism_by_itself(beyond_doubt, repeat):
    # Eight mechanisms, each certified at .05 as if it were alone.
    rng = np.random.default_rng(5)
    trials = repeat(250)
    errors = 0
    for trial in range(trials):
        one = losses(rng, 48, np.full(8, TARGET))
        errors += any(
            pg.certify(
                array, [ERROR], mode="named", release_share="0.1", reliability_target=TARGET,
                alpha=ALPHA, beta=None, seed=trial,
            ).decision is pg.Decision.VALIDATED
            for array in one.values()
        )  # fmt: skip
    assert beyond_doubt(errors, trials, ALPHA)


@pytest.mark.parametrize(("mode", "trials"), [("named", 200), ("direct", 50)])
def test_certify_simultaneous_bounds_in_both_directions(mode, trials, within_budget, repeat):
    etas = np.array([0.3, 0.6, 0.9])
    rng = np.random.default_rng(6)
    trials, above, below = repeat(trials), 0, 0
    for trial in range(trials):
        family = pg.certify(
            losses(rng, 60, etas), [ERROR], mode=mode, family="bounds",
            shares={"m0": "0.2", "m1": "0.3", "m2": "0.5"}, reliability_target=TARGET,
            alpha=ALPHA, beta=ALPHA, seed=trial,
        )  # fmt: skip
        bounds = [(c.reliability_lower, c.reliability_upper) for c in family.values()]
        above += any(low > eta for (low, _), eta in zip(bounds, etas, strict=True))
        below += any(high < eta for (_, high), eta in zip(bounds, etas, strict=True))
    assert within_budget(above, trials, ALPHA)
    assert within_budget(below, trials, ALPHA)
