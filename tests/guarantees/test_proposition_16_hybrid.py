"""Proposition 16: the larger of two bounds whose budgets were split beforehand."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.errors import BudgetOverspent
from proxyguard.exact.binomial import lower_tail
from proxyguard.modes.direct import certify_sharp
from proxyguard.modes.evidence import DirectEvidence, from_count
from proxyguard.modes.hybrid import certify_hybrid
from proxyguard.registry.budget import named_budget, sharp_budget

pytestmark = pytest.mark.guarantee

ALPHA, TARGET, T, GROUPS, N_RELEASES = 0.05, 0.8, 0.03, 2, 250


def simulate(rng: np.random.Generator) -> tuple[int, int]:
    """Return (recognized, favorable) at reliability ``TARGET``.

    The invalid releases come in two halves; each half has its own errors on the shared
    target, at the limit, so it scores as a whole with probability about T. A valid release
    is always recognized, an invalid one never: the named bound errs by luck of the draws,
    the direct one mostly by luck of the target.
    """
    valid = rng.binomial(N_RELEASES, TARGET)
    halves = rng.multinomial(N_RELEASES - valid, [1 / GROUPS] * GROUPS)
    return valid, int(valid + halves @ (rng.random(GROUPS) < T))


def bounds(alpha: str) -> tuple[list[float], list[float]]:
    """Return the named and the direct bound of every count, each at its part of ``alpha``."""
    named = named_budget(alpha, release_share="0.02")
    budget = sharp_budget(alpha)
    return (
        [
            from_count(
                k, N_RELEASES, named, reliability_target=TARGET, outer="alpha_M", label="",
                rests_on="",
            ).value
            for k in range(N_RELEASES + 1)
        ],
        [
            certify_sharp(
                DirectEvidence(favorable=k, n_releases=N_RELEASES, kappa=T, score=""),
                budget,
                reliability_target=TARGET,
            ).value
            for k in range(150, N_RELEASES + 1)
        ],
    )  # fmt: skip


def errors_of(alpha: str, trials: int) -> dict[str, int]:
    named, direct = bounds(alpha)
    rng = np.random.default_rng(1601)
    errors = {"named": 0, "direct": 0, "larger": 0}
    for _ in range(trials):
        recognized, favorable = simulate(rng)
        first, second = named[recognized], direct[favorable - 150]
        errors["named"] += first > TARGET
        errors["direct"] += second > TARGET
        errors["larger"] += max(first, second) > TARGET
    return errors


def test_twin_the_larger_of_two_bounds_at_full_budget(within_budget, beyond_doubt):
    trials = 6000
    errors = errors_of("0.05", trials)
    assert within_budget(errors["named"], trials, ALPHA)
    assert within_budget(errors["direct"], trials, ALPHA)
    assert beyond_doubt(errors["larger"], trials, ALPHA)


def test_the_larger_of_two_bounds_at_half_the_budget(within_budget):
    # At t = .03 a direct bound at .025 is vacuous; the split has to pay for both.
    trials = 6000
    assert within_budget(errors_of("0.025", trials)["larger"], trials, ALPHA)


def test_two_full_budgets_are_refused():
    named = from_count(
        240, N_RELEASES, named_budget("0.05"), reliability_target=TARGET, outer="alpha_M",
        label="", rests_on="",
    )  # fmt: skip
    direct = certify_sharp(
        DirectEvidence(favorable=240, n_releases=N_RELEASES, kappa=T, score=""),
        sharp_budget("0.05"),
        reliability_target=TARGET,
    )
    with pytest.raises(BudgetOverspent):
        certify_hybrid(named, direct, alpha="0.05")


def test_certify_on_losses(within_budget):
    n = 100
    # The largest count of errors out of 100 at limit .3 whose p-value does not exceed .0125.
    tails = lower_tail(np.arange(n + 1), n, 0.3)
    threshold = float(tails[tails <= 0.0125].max())
    error = pg.Requirement(name="error", low=0, high=1, limit=0.3, two_valued=True)
    rng = np.random.default_rng(1602)
    trials = 250
    errors = 0
    for trial in range(trials):
        losses = (rng.random((GROUPS, n, 1)) < 0.3)[rng.integers(GROUPS, size=100)]
        losses[rng.random(100) < TARGET] = False
        found = pg.certify(
            losses, [error], mode="hybrid", bound="sharp", named_share="0.5", release_share="0.02",
            threshold=threshold, reliability_target=TARGET, alpha=ALPHA, beta=None, seed=trial,
        )  # fmt: skip
        errors += found.decision is pg.Decision.VALIDATED
    assert within_budget(errors, trials, ALPHA)
