"""Ceilings on the chance that an invalid release scores favorably.

Hard score: paper Eq. (11), sharpened by Bentkus and by the exact binomial; stratified:
Eq. (17); ramp: Eqs. (18)-(19); p-value score: theory section 2. All ceilings are for one
requirement; the mechanism's is the maximum over its requirements. ``cutoff`` and ``v``
are on the unit scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact import checks
from proxyguard.exact import mean as mean_tests
from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.rounding import (
    GUARD,
    MEAN_GUARD,
    Array,
    at_most,
    pvalue_from_log,
    weaken_upper,
)


def chernoff_ceiling(cutoff: float, v: float, n: int) -> float:
    """Return ``exp(-n d_B(cutoff, v))``, the hard ceiling of paper Eq. (11)."""
    return float(mean_tests.chernoff_pvalue(_inside(cutoff, v), n, v))


def bentkus_ceiling(cutoff: float, v: float, n: int) -> float:
    """Return the Bentkus bound on ``P(mean <= cutoff)``; never above `chernoff_ceiling`."""
    return float(mean_tests.bentkus_pvalue(_inside(cutoff, v), n, v))


def binomial_ceiling(cutoff: float, v: float, n: int, *, identical: bool = True) -> float:
    """Return ``P(Bin(n, v)/n <= cutoff)`` for losses that take only their two bounds."""
    # A count scores when its share is `at_most` the cutoff; this guard is wider than the score's.
    count = np.floor(n * (_inside(cutoff, v) + MEAN_GUARD))
    return float(mean_tests.binomial_pvalue(count, n, v, identical=identical))


def stratified_ceiling(cutoff: float, v: float, effective_n: float) -> float:
    """Return ``exp(-2 (v - cutoff)^2 effective_n)``, paper Eq. (17).

    ``effective_n`` is ``1 / sum_g(w_g^2/n_g)``.
    """
    return float(mean_tests.hoeffding_pvalue(_inside(cutoff, v), effective_n, v))


def slack_ceiling(
    cutoff: float, v: float, n: int, *, paper: bool, two_valued: bool, identical: bool = True
) -> float:
    """Return the ceiling of a slack score on ``n`` unweighted records.

    The paper's is Chernoff's; ours is the exact tail of two-valued losses, else Bentkus'.
    """
    if paper:
        return chernoff_ceiling(cutoff, v, n)
    if two_valued:
        return binomial_ceiling(cutoff, v, n, identical=identical)
    return bentkus_ceiling(cutoff, v, n)


def threshold_ceiling(threshold: float, *, two_valued: tuple[int, float] | None = None) -> float:
    """Return the ceiling of the p-value score ``1{p <= t}``: ``t`` itself.

    For the exact binomial test of one two-valued requirement pass its ``(n, v)``: the
    ceiling is then the largest attainable p-value not above ``t`` (theory section 2).
    """
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"a score threshold must lie in (0, 1), got {threshold}")
    if two_valued is None:
        return threshold
    n, v = two_valued
    low, high = -1, n  # the tail grows with the count, and is 1 at n
    while high - low > 1:
        middle = (low + high) // 2
        if lower_tail(middle, n, v) <= threshold:
            low = middle
        else:
            high = middle
    # No count can pass: the score is always 0, and so is its ceiling.
    return float(lower_tail(low, n, v)) if low >= 0 else 0.0


def ramp_ceiling(cutoff: float, ramp: float, v: float, n: int, *, bins: int = 4096) -> float:
    """Return ``kappa_h`` for one requirement, paper Eq. (18), never understated.

    ``ramp`` is ``h`` on the unit scale, ``0 < ramp <= cutoff``.
    """
    _inside(cutoff, v)
    if not 0.0 < ramp <= cutoff * (1.0 + GUARD):
        raise ValueError(f"need 0 < ramp <= cutoff on the unit scale, got {ramp}, {cutoff}")
    # Right Riemann sum: the tail rises towards the cutoff, so this can only overstate the
    # integral. The midpoint rule is closer and not safe. Slices shrink towards the cutoff,
    # where nearly all of the mass lies when n is large.
    depth = ramp * np.linspace(0.0, 1.0, bins + 1) ** 3
    right = np.clip(cutoff - depth[:-1] + MEAN_GUARD, 0.0, v)
    tails = pvalue_from_log(mean_tests.log_chernoff(right, n, v))
    return min(1.0, float(tails @ np.diff(depth)) / ramp * (1.0 + GUARD))


def slack_score(mean: Array, cutoff: Array) -> NDArray[np.bool_]:
    """Return ``S = 1{mean_j <= cutoff_j for all j}`` over the last axis, paper Eq. (10).

    The one rule for a mean and its cutoff: certificates, blocks, plans and studies ask here. The
    ceilings above are those of the cutoff moved up by `MEAN_GUARD`, which includes every mean
    that scores (`at_most`).
    """
    return np.asarray(np.all(at_most(mean, cutoff), axis=-1))


def most_at_cutoff(cutoff: float, n: int) -> int:
    """Return the largest count out of ``n`` whose share scores by `slack_score`, -1 if none."""
    return int(np.count_nonzero(at_most(np.arange(n + 1) / n, cutoff))) - 1


def ramp_score(mean: Array, cutoff: Array, ramp: Array) -> Array:
    """Return ``S_h = prod_j phi_j(mean_j)`` over the last axis (paper Section on ramps)."""
    return np.asarray(np.prod(np.clip((cutoff - mean) / ramp, 0.0, 1.0), axis=-1))


def ramp_sensitivity(ramps: Array, n: int) -> float:
    """Return ``rho_h = min(1, sum_j (B_j/h_j)/n)``, paper Eq. (19); ramps on the unit scale."""
    return min(1.0, float(np.sum(1.0 / np.asarray(ramps))) / n * (1.0 + GUARD))


def ramp_radius(sensitivity: float, n: int, *, alpha: float) -> float:
    """Return ``r_h = rho_h sqrt(n/2 log(1/alpha))``, paper Eq. (19)."""
    return float(sensitivity * np.sqrt(0.5 * n * -np.log(checks.level(alpha))) * (1.0 + GUARD))


def block_radius(n_releases: int, n_blocks: int, *, alpha: float) -> float:
    """Return ``r_{R,B} = sqrt((1/R + 1/B) log(1/alpha) / 2)`` of Theorem 13."""
    return float(
        np.sqrt(0.5 * (1.0 / n_releases + 1.0 / n_blocks) * -np.log(checks.level(alpha)))
    ) * (1.0 + GUARD)


def markov_allowance(kappa: float, alpha: float) -> float:
    """Return ``min(1, kappa/alpha)``, the target-side allowance of Eq. (13).

    No smaller allowance follows from the mean constraint alone (Proposition 7).
    """
    if not 0.0 <= kappa <= 1.0 or not 0.0 < alpha < 1.0:
        raise ValueError(f"need 0 <= kappa <= 1 and 0 < alpha < 1, got {kappa}, {alpha}")
    return float(weaken_upper(min(1.0, kappa / alpha)))


def _inside(cutoff: float, v: float) -> float:
    if not 0.0 < cutoff < v < 1.0:
        raise ValueError(f"need 0 < cutoff < limit < 1 on the unit scale, got {cutoff}, {v}")
    return cutoff
