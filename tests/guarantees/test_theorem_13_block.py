"""Theorem 13: the mean witness over releases and target blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import proxyguard as pg
from proxyguard.exact.contamination import chernoff_ceiling
from proxyguard.modes.block import BlockEvidence, certify_block
from proxyguard.modes.evidence import rescale
from proxyguard.registry.budget import sharp_budget

pytestmark = pytest.mark.guarantee

ALPHA, TARGET = 0.05, 0.8
BUDGET = sharp_budget("0.05")


def simulate(
    rng: np.random.Generator,
    n_releases: int,
    n_blocks: int,
    size: int,
    slack: float,
    target: float = TARGET,
) -> BlockEvidence:
    """Return the witness at reliability ``target``; invalid releases share errors at the limit."""
    valid = rng.binomial(n_releases, target)
    one = stats.binom.cdf(np.floor(size * (0.5 - slack) + 1e-9), size, 0.5)
    passed = rng.binomial(n_blocks, one) / n_blocks
    return BlockEvidence(
        n_releases=n_releases,
        n_blocks=n_blocks,
        block_size=size,
        mean_witness=float((valid + (n_releases - valid) * passed) / n_releases),
        kappa=chernoff_ceiling(0.5 - slack, 0.5, size),
    )


@pytest.mark.parametrize(
    ("n_releases", "n_blocks", "size", "slack"),
    [(2000, 20, 100, 0.1), (2000, 200, 20, 0.2), (30, 1000, 20, 0.2), (500, 500, 50, 0.2)],
)
def test_reliability_at_the_target(n_releases, n_blocks, size, slack, within_budget):
    trials = 2000
    rng = np.random.default_rng(1301)
    errors = sum(
        certify_block(simulate(rng, n_releases, n_blocks, size, slack), BUDGET).value > TARGET
        for _ in range(trials)
    )
    assert within_budget(errors, trials, ALPHA)


def test_the_law_that_comes_closest(within_budget):
    # Six releases and many blocks: six valid ones lie just beyond McDiarmid's radius, and a
    # reliability of one half gives them with probability 1/64.
    trials = 4000
    rng = np.random.default_rng(1302)
    errors = sum(
        certify_block(simulate(rng, 6, 100_000, 100, 0.3, 0.5), BUDGET).value > 0.5
        for _ in range(trials)
    )
    assert within_budget(errors, trials, ALPHA)
    assert stats.binomtest(errors, trials, 1 / 64).pvalue > 1e-4


def test_twin_without_its_radius(beyond_doubt):
    trials = 1000
    rng = np.random.default_rng(1303)
    found = [simulate(rng, 100, 200, 50, 0.2) for _ in range(trials)]
    errors = sum(rescale(one.mean_witness, one.kappa) > TARGET for one in found)
    assert beyond_doubt(errors, trials, ALPHA)


def test_twin_without_kappa(beyond_doubt):
    # Half of the blocks pass at the limit itself; the witness is .9 on average.
    trials = 400
    rng = np.random.default_rng(1304)
    errors = 0
    for _ in range(trials):
        one = simulate(rng, 2000, 2000, 21, 0.01)
        assert one.kappa > 0.9
        without = BlockEvidence(
            n_releases=2000, n_blocks=2000, block_size=21, mean_witness=one.mean_witness, kappa=0.0
        )
        errors += certify_block(without, BUDGET).value > TARGET
    assert beyond_doubt(errors, trials, ALPHA)


def test_certify_on_losses(within_budget):
    loss = pg.Requirement(name="loss", low=0, high=1, limit=0.5, slack=0.2, two_valued=True)
    rng = np.random.default_rng(1305)
    trials = 150
    errors = 0
    for trial in range(trials):
        group = rng.integers(5, size=100)
        losses = (rng.random((5, 600, 1)) < 0.5)[group]
        losses[rng.random(100) < TARGET] = False
        found = pg.certify(
            losses, [loss], mode="block", block_size=20, reliability_target=TARGET, alpha=ALPHA,
            beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)
