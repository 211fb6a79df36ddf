"""How many favorable scores, or recognized releases, a registered claim needs out of R."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np

from proxyguard.exact import contamination
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.mean import log_chernoff
from proxyguard.exact.roots import bracket_switch
from proxyguard.exact.sharp import critical_count, smooth_pvalue
from proxyguard.registry.budget import Budget
from proxyguard.registry.claim import Bound, Claim, Score
from proxyguard.registry.levels import Levels
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest


@lru_cache(maxsize=4096)
def least_recognized(releases: int, *, target: float, alpha: float) -> int:
    """Return the least count with ``CP_lower > target``, ``R + 1`` if there is none."""
    limits = clopper_pearson_lower(np.arange(releases + 1), releases, alpha=alpha)
    return int(np.searchsorted(limits, target, side="right"))


def score_ceiling(
    claim: Claim,
    levels: Levels,
    requirements: Sequence[Requirement],
    tests: Sequence[ComponentTest],
    n: int,
) -> float:
    """Return ``kappa``: how often an invalid release scores at the most, over the target."""
    if claim.score is Score.PVALUE:
        threshold = float(levels.threshold)
        counted = (ComponentTest.BINOMIAL, ComponentTest.RANDOMIZED_BINOMIAL)
        if any(test not in counted for test in tests):
            return threshold
        return max(
            contamination.threshold_ceiling(threshold, two_valued=(n, r.unit_limit))
            for r in requirements
        )
    paper = claim.bound is Bound.PAPER
    return max(
        contamination.slack_ceiling(
            r.unit_cutoff, r.unit_limit, n, paper=paper, two_valued=r.two_valued
        )
        for r in requirements
    )


def least_favorable(claim: Claim, budget: Budget, kappa: float, releases: int) -> int:
    """Return the least favorable count that validates in direct mode, ``R + 1`` if none does."""
    target = claim.target
    if claim.bound is Bound.SHARP:
        return _critical_count(releases, target, kappa, float(budget.total))
    allowance = contamination.markov_allowance(kappa, float(budget["alpha_Z"]))
    # L > eta_0 either way: paper's pi - c, rescaled (pi - c)/(1 - c).
    rate = target + allowance * (1.0 if claim.bound is Bound.PAPER else 1.0 - target)
    if allowance >= 1.0 or rate >= 1.0:
        return releases + 1
    return least_recognized(releases, target=rate, alpha=float(budget["alpha_Q"]))


@lru_cache(maxsize=4096)
def _critical_count(releases: int, target: float, kappa: float, alpha: float) -> int:
    return int(critical_count(releases, target=target, kappa=kappa, alpha=alpha))


def least_counted(budget: Budget, threshold: Fraction, releases: int, *, target: float) -> int:
    """Return the least favorable count that validates by the e-value count ``threshold(t)``.

    ``K_LB = R - m*`` with ``m*`` the largest ``m <= R`` with ``(m - (R - N)) alpha_Z < m t``.
    """
    alpha = budget["alpha_Z"]
    valid = least_recognized(releases, target=target, alpha=float(budget["alpha_Q"]))
    if threshold >= alpha or valid > releases:
        return releases + 1
    # m* <= R - valid exactly when (R - N) alpha/(alpha - t) <= R - valid + 1.
    most = (releases - valid + 1) * (alpha - threshold) / alpha
    return max(valid, releases - int(most))


def least_smooth(
    releases: int, n: int, *, target: float, kappa: float, sensitivity: float, alpha: float
) -> int:
    """Return the least number of rounded ramp scores that validates, ``R + 1`` if none does."""
    low, high = 0, releases + 1  # the p-value falls as the count grows
    while high - low > 1:
        middle = (low + high) // 2
        p = smooth_pvalue(
            middle, releases, target=target, kappa=kappa, sensitivity=sensitivity, n_records=n
        )
        low, high = (low, middle) if p <= alpha else (middle, high)
    return high


def least_mean_score(releases: int, rate: float, *, alpha: float) -> float:
    """Return the least mean of R scores whose Bernoulli-KL limit exceeds ``rate``; 2 if none."""
    if rate >= 1.0 or alpha ** (1.0 / releases) <= rate:
        return 2.0
    # The limit of a mean m exceeds the rate exactly when R d_B(m, rate) > log(1/alpha).
    _, first = bracket_switch(
        lambda m: log_chernoff(1.0 - m, releases, 1.0 - rate) < log(alpha),
        np.asarray(rate),
        np.asarray(1.0),
    )
    return float(first)
