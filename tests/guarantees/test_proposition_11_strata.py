"""Proposition 11: registered strata and weights, in named and in direct mode."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.mean import hoeffding_pvalue
from proxyguard.exact.sharp import critical_count

pytestmark = pytest.mark.guarantee

ALPHA, TARGET = 0.05, 0.8
SIZES = {0: 10, 1: 190}
STRATA = np.repeat([0, 1], [10, 190])
UNEQUAL = pg.Stratified(sizes=SIZES, weights={0: "1/2", 1: "1/2"})
PROPORTIONAL = pg.Stratified(sizes=SIZES, weights={0: "0.05", 1: "0.95"})
LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.5, slack=0.3)


def losses(rng: np.random.Generator, n_releases: int, rare: float, weight: float) -> np.ndarray:
    """Return losses of four groups of releases with comonotone errors inside each group.

    An invalid release has risk ``rare`` in the small stratum and a weighted mean of exactly
    the limit .5; a valid release hardly errs. Reliability is ``TARGET``.
    """
    common = (0.5 - weight * rare) / (1 - weight)
    risk = np.where(STRATA == 0, rare, common)
    group = rng.integers(4, size=n_releases)
    found = (rng.random((4, STRATA.size)) < risk)[group]
    found[rng.random(n_releases) < TARGET] = False
    return found[:, :, None]


def errors_of(trials: int, rare: float, weight: float, seed: int, **choices: object) -> int:
    rng = np.random.default_rng(seed)
    return sum(
        pg.certify(
            losses(rng, 60, rare, weight), [LOSS], records=pg.Records(strata=STRATA), seed=trial,
            reliability_target=TARGET, alpha=ALPHA, beta=None, **choices,
        ).decision is pg.Decision.VALIDATED
        for trial in range(trials)
    )  # fmt: skip


@pytest.mark.parametrize("rare", [0.5, 0.9])
@pytest.mark.parametrize(
    "choices",
    [
        {"mode": "named", "test": "hoeffding"},
        {"mode": "named", "test": "betting_fixed"},
        {"mode": "direct", "bound": "rescaled", "score": "slack", "target_share": "0.8"},
        {"mode": "direct", "bound": "sharp", "test": "hoeffding"},
        {"mode": "direct", "bound": "sharp", "test": "betting_fixed"},
    ],
    ids=["named hoeffding", "named betting", "rescaled slack", "sharp hoeffding", "sharp betting"],
)
def test_unequal_weights(choices, rare, within_budget, repeat):
    trials = repeat(50)
    errors = errors_of(trials, rare, 0.5, 1101, design=UNEQUAL, **choices)
    assert within_budget(errors, trials, ALPHA)


@pytest.mark.parametrize("rare", [0.1, 0.9])
@pytest.mark.parametrize("test", ["chernoff", "bentkus", "randomized_binomial"])
def test_proportional_weights(test, rare, within_budget, repeat):
    trials = repeat(80)
    errors = errors_of(trials, rare, 0.05, 1102, design=PROPORTIONAL, mode="direct", test=test)
    assert within_budget(errors, trials, ALPHA)


def test_without_replacement_from_each_stratum(within_budget):
    # Finite pools of 20 and 380 records, half of each sampled and half of each in error.
    rng = np.random.default_rng(1103)
    pool = np.concatenate([np.arange(20) < 10, np.arange(380) < 190])
    errors = 0
    for trial in range(100):
        rows = [
            np.concatenate([rng.permutation(20)[:10], 20 + rng.permutation(380)[:190]])
            for _ in range(4)
        ]
        found = pool[np.array(rows)][rng.integers(4, size=60)]
        found[rng.random(60) < TARGET] = False
        errors += pg.certify(
            found[:, :, None], [LOSS], design=UNEQUAL, records=pg.Records(strata=STRATA),
            test="hoeffding", reliability_target=TARGET, alpha=ALPHA, beta=None, seed=trial,
        ).decision is pg.Decision.VALIDATED  # fmt: skip
    assert within_budget(errors, 100, ALPHA)


@pytest.mark.parametrize("mode", ["named", "direct"])
def test_twin_strata_ignored(mode, beyond_doubt):
    # Weighted mean .5, plain mean .14: taken for iid, every invalid release passes.
    rng = np.random.default_rng(1104)
    errors = 0
    for trial in range(40):
        found = pg.certify(
            losses(rng, 60, 0.9, 0.5), [LOSS], mode=mode, test="hoeffding",
            reliability_target=TARGET, alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert beyond_doubt(errors, 40, ALPHA)


def test_twin_all_records_as_effective_size(within_budget, beyond_doubt):
    # The right weights, but Hoeffding's exponent with n = 200 instead of 38. All invalid
    # releases share their errors, and 54 of 60 scores at t = .01 validate.
    assert float(UNEQUAL.effective_size) == 38.0
    assert critical_count(60, target=TARGET, kappa=0.01, alpha=ALPHA) == 54
    rng = np.random.default_rng(1105)
    trials = 4000
    means = rng.binomial(10, 0.5, trials) / 20 + rng.binomial(190, 0.5, trials) / 380
    valid = rng.binomial(60, TARGET, trials)
    errors = {
        n: int(np.sum((valid >= 54) | (hoeffding_pvalue(means, n, 0.5) <= 0.01))) for n in (38, 200)
    }
    assert within_budget(errors[38], trials, ALPHA)
    assert beyond_doubt(errors[200], trials, ALPHA)
