"""Theorem 9: collective counts need separate batches of target records."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.mean import binomial_pvalue
from proxyguard.exact.multiplicity import Dependence, tail_fisher_count, tail_simes_count

pytestmark = pytest.mark.guarantee

ALPHA, ALPHA_R, ALPHA_M, TARGET = 0.05, 0.025, 0.025, 0.8
COUNTS = {"simes": tail_simes_count, "fisher": tail_fisher_count}
ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)


def counted(pvalues: np.ndarray, combination: str) -> np.ndarray:
    count = COUNTS[combination]
    return np.array(
        [count(row, alpha=ALPHA_R, dependence=Dependence.INDEPENDENT) for row in pvalues]
    )


def validated(counts: np.ndarray, n_releases: int) -> np.ndarray:
    return clopper_pearson_lower(counts, n_releases, alpha=ALPHA_M) > TARGET


@pytest.mark.parametrize("combination", COUNTS)
@pytest.mark.parametrize("n_releases", [17, 48, 190])
def test_independent_batches_at_the_target(combination, n_releases, within_budget):
    trials, n = (3000, 600) if n_releases < 100 else (1500, 600)
    rng = np.random.default_rng(901)
    valid = rng.random((trials, n_releases)) < TARGET
    table = binomial_pvalue(np.arange(n + 1), n, 0.3)
    pvalues = table[rng.binomial(n, np.where(valid, 0.05, 0.3))]
    counts = counted(pvalues, combination)
    # More than the valid releases are counted with probability at most alpha_R ...
    assert within_budget(int(np.sum(counts > valid.sum(axis=1))), trials, ALPHA_R)
    # ... and the mechanism is validated with probability at most alpha_R + alpha_M.
    assert within_budget(int(validated(counts, n_releases).sum()), trials, ALPHA)


@pytest.mark.parametrize("combination", COUNTS)
def test_twin_no_valid_release_and_uncorrected_counts(combination, within_budget, beyond_doubt):
    # 40 invalid releases at their limits: counting those below the level counts one of them.
    trials = 2000
    pvalues = np.random.default_rng(902).random((trials, 40))
    assert within_budget(int(np.sum(counted(pvalues, combination) > 0)), trials, ALPHA_R)
    assert beyond_doubt(int((pvalues <= ALPHA_R).any(axis=1).sum()), trials, ALPHA_R)


def batches(uniforms: np.ndarray, risk: np.ndarray) -> pg.LossBatches:
    """Return one batch a release, from (releases, records) or from shared (records,) uniforms."""
    losses = uniforms < risk[:, None]
    return pg.LossBatches([pg.LossArray(one[None, :, None]) for one in losses])


@pytest.mark.parametrize("combination", COUNTS)
def test_certify_on_separate_batches(combination, within_budget, repeat):
    rng = np.random.default_rng(903)
    trials, n_releases = repeat(120), 17
    errors = 0
    for trial in range(trials):
        risk = np.where(rng.random(n_releases) < TARGET, 0.0, 0.3)
        found = pg.certify(
            batches(rng.random((n_releases, 60)), risk), [ERROR], mode="collective",
            dependence="independent", combination=combination, reliability_target=TARGET,
            alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)


@pytest.mark.whole
def test_twin_fisher_on_one_shared_target(beyond_doubt):
    # One uniform a record drives every release; the p-values of invalid ones are equal, and
    # Fisher adds up the same evidence again and again. Without record ids nothing shows that
    # the batches are one and the same.
    rng = np.random.default_rng(904)
    trials, n_releases, n = 200, 48, 100
    errors = 0
    for trial in range(trials):
        risk = np.where(rng.random(n_releases) < TARGET, 0.0, 0.3)
        found = pg.certify(
            batches(rng.random(n), risk), [ERROR], mode="collective", dependence="independent",
            combination="fisher", reliability_target=TARGET, alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert beyond_doubt(errors, trials, ALPHA)


def test_one_shared_target_is_refused_where_it_can_be_seen():
    n = 100
    shared = pg.LossArray(np.zeros((1, n, 1)), pg.Records(ids=np.arange(n)))
    with pytest.raises(pg.LossMismatch, match="is in batch 0 and in batch 1"):
        pg.LossBatches([shared, shared])
    with pytest.raises(pg.UnsupportedDesign, match="one shared target"):
        pg.certify(
            np.zeros((2, n, 1)), [ERROR], mode="collective", dependence="independent",
            reliability_target=TARGET,
        )  # fmt: skip


def test_twin_simes_on_one_shared_target(beyond_doubt):
    # Simes survives equal p-values; its worst dependence, which one shared target can have,
    # is an error of alpha_R (1 + 1/2 + ... + 1/m). With probability alpha_R/j exactly j of the
    # m p-values lie in the j-th slice ((j - 1) alpha_R/m, j alpha_R/m], else none is below
    # alpha_R: each p-value alone is uniform.
    rng = np.random.default_rng(905)
    trials, m = 4000, 100
    size = np.arange(1, m + 1)
    slice_ = np.searchsorted(np.cumsum(ALPHA_R / size), rng.random(trials)) + 1
    pvalues = rng.uniform(ALPHA_R, 1.0, (trials, m))
    for row, j in zip(pvalues, slice_, strict=True):
        if j <= m:
            low = rng.choice(m, j, replace=False)
            row[low] = (j - rng.random(j)) * ALPHA_R / m
    counts = counted(pvalues, "simes")
    # Every release is invalid, so any positive count is an error.
    assert beyond_doubt(int(np.sum(counts > 0)), trials, ALPHA_R)
