"""Tests of a bounded mean from its moments (paper Eqs. 3-5; theory section 1).

Everything here lives on the unit scale: ``mean`` is the sample mean of
``u = (x - a)/(b - a)`` and ``v = (tau - a)/(b - a)`` is the limit. A p-value is
super-uniform when the true mean is at least ``v`` (the validation direction). For the
violation direction call the same function with ``1 - mean`` and ``1 - v``; lower limits
are ``1 - upper`` of the reflected mean.

Each test is a pair of functions: ``*_pvalue(..., v)`` and ``*_upper(..., delta)``, with
``pvalue <= delta`` exactly when ``upper < v``, up to guards that widen both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from proxyguard.exact import checks
from proxyguard.exact.binomial import clopper_pearson_upper, lower_tail, lower_tail_table
from proxyguard.exact.rounding import (
    MEAN_GUARD,
    TINY,
    Array,
    bracket_switch,
    pvalue_from_log,
    weaken_lower,
    weaken_upper,
)
from proxyguard.exact.special import special


def empirical_bernstein_pvalue(
    mean: ArrayLike, variance: ArrayLike, n: ArrayLike, v: ArrayLike
) -> Array:
    """Return the empirical Bernstein p-value of ``mean >= v`` (paper Eqs. (4)-(5)).

    Eq. (4) is quadratic in ``x = sqrt(log(2/delta))``, so Eq. (5) has a closed form.

    Guarantee
    ---------
    Super-uniform for iid records in [0, 1] and ``n >= 2`` (Maurer and Pontil 2009).
    """
    mean, variance, n, v = _moments(mean, v, n, least=2, variance=variance)
    gap = np.maximum(v - mean - MEAN_GUARD, 0.0)
    spread = np.sqrt(2.0 * variance / n)
    width = 7.0 / (3.0 * (n - 1.0))
    # The root (-a + sqrt(a^2 + 4 b g)) / (2 b) without the cancellation at small g.
    below = spread + np.sqrt(spread**2 + 4.0 * width * gap)
    root = 2.0 * gap / np.where(gap > 0.0, below, 1.0)
    return np.where(gap > 0.0, pvalue_from_log(np.log(2.0) - root**2), 1.0)


def empirical_bernstein_upper(
    mean: ArrayLike, variance: ArrayLike, n: ArrayLike, *, delta: float
) -> Array:
    """Return the empirical Bernstein upper limit of the mean (paper Eq. (4)), capped at 1.

    Guarantee
    ---------
    Falls below the true mean with probability at most ``delta``.
    """
    mean, variance, n, _ = _moments(mean, 0.5, n, least=2, variance=variance)
    log_term = np.log(2.0 / checks.level(delta, "delta"))
    radius = np.sqrt(2.0 * variance * log_term / n) + 7.0 * log_term / (3.0 * (n - 1.0))
    return weaken_upper(mean + MEAN_GUARD + radius)


def hoeffding_pvalue(mean: ArrayLike, effective_n: ArrayLike, v: ArrayLike) -> Array:
    """Return Hoeffding's p-value of ``mean >= v``.

    ``effective_n`` is ``n`` for an unweighted mean and ``1 / sum_g(w_g^2 / n_g)`` for
    strata with registered weights (paper Proposition 11).

    Guarantee
    ---------
    Super-uniform for iid records, registered strata with any weights, and sampling
    without replacement (Hoeffding 1963).
    """
    mean, _, n, v = _moments(mean, v, effective_n, least=0)
    gap = np.maximum(v - mean - MEAN_GUARD, 0.0)
    return pvalue_from_log(-2.0 * n * gap**2)


def hoeffding_upper(mean: ArrayLike, effective_n: ArrayLike, *, delta: float) -> Array:
    """Return Hoeffding's upper limit of the (weighted) mean, capped at 1."""
    mean, _, n, _ = _moments(mean, 0.5, effective_n, least=0)
    return weaken_upper(
        mean + MEAN_GUARD + np.sqrt(-np.log(checks.level(delta, "delta")) / (2.0 * n))
    )


def log_chernoff(mean: ArrayLike, n: ArrayLike, v: ArrayLike) -> Array:
    """Return ``-n d_B(mean, v)``, never understated; the caller sees to ``mean <= v``."""
    mean, n, v = (np.asarray(x, dtype=np.float64) for x in (mean, n, v))
    left, right = special.rel_entr(mean, v), special.rel_entr(1.0 - mean, 1.0 - v)
    # The two terms nearly cancel when mean is close to v.
    error = 4.0 * np.finfo(np.float64).eps * (np.abs(left) + np.abs(right))
    return np.asarray(-n * np.maximum(0.0, left + right - error))


def chernoff_pvalue(mean: ArrayLike, n: ArrayLike, v: ArrayLike) -> Array:
    """Return the Chernoff p-value ``exp(-n d_B(mean, v))``, 1 when ``mean >= v``.

    Guarantee
    ---------
    Super-uniform for iid or independent records with average mean at least ``v``,
    proportional strata, and sampling without replacement (Hoeffding 1963); it is the
    exponential inside paper Eq. (11).
    """
    mean, _, n, v = _moments(mean, v, n, least=1)
    return pvalue_from_log(log_chernoff(np.minimum(mean + MEAN_GUARD, v), n, v))


def chernoff_upper(mean: ArrayLike, n: ArrayLike, *, delta: float) -> Array:
    """Return the largest ``v >= mean`` with ``n d_B(mean, v) <= log(1/delta)``."""
    mean, _, n, _ = _moments(mean, 0.5, n, least=1)
    safe = np.minimum(mean + MEAN_GUARD, 1.0)
    budget = -np.log(checks.level(delta, "delta")) / n
    safe, budget = np.broadcast_arrays(safe, budget)
    _, first = bracket_switch(
        lambda v: -log_chernoff(safe, 1.0, v) > budget, safe, np.ones(safe.shape)
    )
    return weaken_upper(first)


def kl_mean_lower(mean: ArrayLike, n: ArrayLike, *, alpha: float) -> Array:
    """Return the Bernoulli-KL lower limit of the mean of iid [0, 1] scores.

    The reflected `chernoff_upper`: the smooth certificate's ``pi_h`` (Theorem 12).

    Guarantee
    ---------
    Exceeds the true mean with probability at most ``alpha``.
    """
    reflected = 1.0 - checks.unit_records(mean).reshape(np.shape(mean))
    return weaken_lower(1.0 - chernoff_upper(reflected, n, delta=alpha))


def bentkus_pvalue(mean: ArrayLike, n: int, v: float) -> Array:
    """Return the Bentkus p-value of ``mean >= v`` for one sample size and one limit.

    With ``s = n mean`` and ``F`` the distribution function of ``Bin(n, v)``:
    ``min over integers h > s of sum_{k<h} F(k) / (h - s)``. The best ``h`` is the least
    one above ``s`` with ``E[Bin | Bin <= h] >= s``, found by one sorted search.

    Guarantee
    ---------
    Super-uniform wherever `chernoff_pvalue` is, and never above it (theory section 1).
    """
    mean = np.asarray(mean, dtype=np.float64)
    _moments(mean, v, n, least=1)
    table = lower_tail_table(int(n), float(v))
    s = np.minimum((mean + MEAN_GUARD) * n, float(n))
    h = np.maximum(np.searchsorted(table.mean_below, s), np.floor(s) + 1.0)
    beyond = h > n  # the bound is above 1 - o(1) there; chernoff has p = 1 as well
    inner = np.where(beyond, 1.0, h).astype(np.int64)
    log_p = table.log_sum_cdf[inner - 1] - np.log(np.where(beyond, 1.0, inner - s))
    return np.where(beyond | (s >= n * v), 1.0, pvalue_from_log(log_p + table.log_error))


def bentkus_upper(mean: ArrayLike, n: int, *, delta: float) -> Array:
    """Return the least ``v`` whose Bentkus p-value is at most ``delta``, rounded up.

    Notes
    -----
    Decisions read a table for one ``v``, and here each mean asks for 48 of them: with
    ``sum_{k<h} F(k) = h F(h - 1) - n v F_{n-1}(h - 2)`` no table is needed. Any ``h > s`` bounds
    the p-value from above, so that a ``h`` beside the best one only widens the limit.
    """
    mean = np.asarray(mean, dtype=np.float64)
    _moments(mean, 0.5, n, least=1)
    high = chernoff_upper(mean, n, delta=delta)  # never below the Bentkus limit
    inside = (mean < 1.0) & (high < 1.0)
    s = np.where(inside, (mean + MEAN_GUARD) * n, 0.0)
    # The two terms nearly cancel, and the library's tails have errors of their own.
    error = 1e-10 * (1.0 + n / 100.0)
    _, first = bracket_switch(
        lambda v: np.asarray(_bentkus_tail(s, n, v) * (1.0 + error) <= delta),
        np.where(inside, mean, 0.0),
        np.where(inside, high, 1.0),
        steps=48,
    )
    return weaken_upper(np.where(inside, first, 1.0))


def _bentkus_tail(s: Array, n: int, v: Array) -> Array:
    """Return the Bentkus p-value of sums ``s``, each at a limit of its own."""
    low, high = np.floor(s) + 1.0, np.full(s.shape, float(n))
    while np.any(low < high):  # the least h with E[Bin | Bin <= h] >= s
        h = np.floor((low + high) / 2.0)
        enough = n * v * _lower_tail(h - 1.0, n - 1, v) >= s * _lower_tail(h, n, v)
        low, high = np.where(enough, low, np.minimum(h + 1.0, high)), np.where(enough, h, high)
    area = high * _lower_tail(high - 1.0, n, v) - n * v * _lower_tail(high - 2.0, n - 1, v)
    return np.asarray(area / (high - s))


def _lower_tail(k: Array, n: int, v: Array) -> Array:
    """Return ``P(Bin(n, v) <= k)``, of no trials and below none too."""
    inside = special.bdtr(np.clip(k, 0.0, n), max(n, 1), v)
    return np.where(k < 0.0, 0.0, np.where(k >= n, 1.0, inside))


def binomial_pvalue(
    count: ArrayLike, n: ArrayLike, v: ArrayLike, *, identical: bool = True
) -> Array:
    """Return ``P(Bin(n, v) <= count)`` for losses that take only their two bounds.

    ``identical=False`` is for designs whose records are not identically distributed:
    there the p-value is 1 whenever ``count > n v - 1`` (Hoeffding 1956).

    Guarantee
    ---------
    Super-uniform for iid two-valued records; with ``identical=False`` also for
    independent records with average mean at least ``v``, proportional strata, and
    sampling without replacement.
    """
    count, n, v = (np.asarray(x, dtype=np.float64) for x in (count, n, v))
    pvalue = lower_tail(count, n, v)
    if identical:
        return pvalue
    return np.where((count + 1.0) / n > v, 1.0, pvalue)


def share_pvalue(count: ArrayLike, n: ArrayLike, v: ArrayLike, *, identical: bool = True) -> Array:
    """Return `binomial_pvalue` for a limit ``v`` that is itself a sum or difference of doubles.

    The limit is taken a guard lower, where the null is larger. Above 1 no share can reach it: the
    null is empty and the p-value the least there is.

    Guarantee
    ---------
    As `binomial_pvalue`, for any ``v`` that errs by less than `MEAN_GUARD`.
    """
    safe = np.asarray(v, dtype=np.float64) - MEAN_GUARD
    pvalue = binomial_pvalue(count, n, np.clip(safe, 0.0, 1.0), identical=identical)
    return np.where(safe > 1.0, TINY, pvalue)


def binomial_upper(
    count: ArrayLike, n: ArrayLike, *, delta: float, identical: bool = True
) -> Array:
    """Return the upper limit that `binomial_pvalue` inverts to."""
    limit = clopper_pearson_upper(count, n, alpha=checks.level(delta, "delta"))
    if identical:
        return limit
    count, n = np.asarray(count, dtype=np.float64), np.asarray(n, dtype=np.float64)
    return np.maximum(limit, weaken_upper(np.minimum(1.0, (count + 1.0) / n)))


def _moments(
    mean: ArrayLike, v: ArrayLike, n: ArrayLike, *, least: int, variance: ArrayLike = 0.0
) -> tuple[Array, Array, Array, Array]:
    mean, variance, n, v = (np.asarray(x, dtype=np.float64) for x in (mean, variance, n, v))
    if not np.all((mean >= 0.0) & (mean <= 1.0)):
        raise ValueError(f"means must lie in [0, 1] on the unit scale, got {mean}")
    if not np.all((v > 0.0) & (v < 1.0)):
        raise ValueError(f"limits must lie in (0, 1) on the unit scale, got {v}")
    if not np.all(n >= least) or not np.all(n > 0):
        raise ValueError(f"this test needs at least {max(least, 1)} records, got {n}")
    if not np.all(variance >= 0.0):
        raise ValueError(f"variances cannot be negative, got {variance}")
    return mean, variance, n, v
