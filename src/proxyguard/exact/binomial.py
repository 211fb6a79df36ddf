"""Exact binomial tails and limits (paper Eqs. 9 and 13, Appendix on component tests)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from proxyguard.exact import checks
from proxyguard.exact.rounding import Array, weaken_lower, weaken_pvalue, weaken_upper
from proxyguard.exact.special import special

# Largest sample that is tabulated: a gigabyte of tails.
LARGEST_TABLE = 20_000_000


def lower_tail(count: ArrayLike, trials: ArrayLike, rate: ArrayLike) -> Array:
    """Return ``P(Bin(trials, rate) <= count)``, never understated.

    >>> float(lower_tail(0, 3, 0.5).round(6))
    0.125
    """
    k, n = checks.counts(count, trials)
    p = _rates(rate)
    with np.errstate(under="ignore"):
        tail = special.betaincc(k + 1.0, np.maximum(n - k, 1.0), p)
    return _weaken_tail(np.where(k < n, tail, 1.0), n)


def upper_tail(count: ArrayLike, trials: ArrayLike, rate: ArrayLike) -> Array:
    """Return ``P(Bin(trials, rate) >= count)``, never understated (paper Eq. (9)).

    >>> float(upper_tail(30, 30, 0.8).round(5))
    0.00124
    """
    k, n = checks.counts(count, trials)
    p = _rates(rate)
    some = np.maximum(k, 1.0)
    with np.errstate(under="ignore"):
        # Two forms of one number. For large rates the first underflows far too early, for
        # small ones 1 - p has lost the digits of p.
        tail = np.where(
            p < 0.5,
            special.betainc(some, n - some + 1.0, p),
            special.betaincc(n - some + 1.0, some, 1.0 - p),
        )
    return _weaken_tail(np.where(k > 0, tail, 1.0), n)


def _weaken_tail(tail: Array, n: Array) -> Array:
    """Move a tail up by the guard and by the beta functions' error, which grows with ``n``."""
    return weaken_pvalue(tail * (1.0 + 4.0 * n * np.finfo(np.float64).eps))


def clopper_pearson_lower(count: ArrayLike, trials: ArrayLike, *, alpha: float) -> Array:
    """Return the exact one-sided lower limit of a binomial rate.

    Guarantee
    ---------
    Exceeds the true rate with probability at most ``alpha`` (the binomial step of
    paper Eq. (13)). Never overshoots: at the limit, the chance of seeing ``count`` or
    more is at most ``alpha``.

    >>> float(clopper_pearson_lower(30, 30, alpha=0.025).round(3))
    0.884
    """
    checks.level(alpha)
    k, n = checks.counts(count, trials)
    limit = special.betaincinv(np.maximum(k, 1.0), n - np.maximum(k, 1.0) + 1.0, alpha)
    return weaken_lower(np.where(k <= 0, 0.0, limit))


def clopper_pearson_upper(count: ArrayLike, trials: ArrayLike, *, alpha: float) -> Array:
    """Return the exact one-sided upper limit of a binomial rate.

    Guarantee
    ---------
    Falls below the true rate with probability at most ``alpha``.
    """
    checks.level(alpha)
    k, n = checks.counts(count, trials)
    inner = np.minimum(k, n - 1.0)
    limit = special.betainccinv(inner + 1.0, n - inner, alpha)
    return weaken_upper(np.where(k >= n, 1.0, limit))


def wilson_interval(count: int, trials: int, *, z: float = 1.959964) -> tuple[float, float]:
    """Return Wilson's two-sided interval of a rate: approximate, for Monte Carlo tables only.

    No certificate uses it.
    """
    if not 0 <= count <= trials or trials < 1:
        raise ValueError(f"need 0 <= count <= trials and trials >= 1, got {count} of {trials}")
    rate, square = count / trials, z * z / trials
    centre = (rate + square / 2) / (1 + square)
    half = z / (1 + square) * float(np.sqrt(rate * (1 - rate) / trials + square / (4 * trials)))
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True, slots=True)
class LowerTailTable:
    """The lower tail of one ``Bin(n, v)`` in logarithms, for ``k = 0..n``."""

    n: int
    v: float
    log_cdf: Array  # (n + 1,)  log F(k)
    log_sum_cdf: Array  # (n + 1,)  log sum_{i <= k} F(i)
    mean_below: Array  # (n + 1,)  E[Bin | Bin <= k], nondecreasing
    log_error: float  # bound on the rounding error of the logarithms above 1e-300


@lru_cache(maxsize=8)
def lower_tail_table(n: int, v: float) -> LowerTailTable:
    """Tabulate the lower tail of ``Bin(n, v)`` in logarithms.

    Built from the ratios of neighbouring probabilities and the fact that they sum to
    one, so no large factorial is ever formed and nothing underflows.
    """
    if not 1 <= n <= LARGEST_TABLE or not 0.0 < v < 1.0:
        raise ValueError(
            f"need 1 <= n <= {LARGEST_TABLE:,} and 0 < v < 1, got n = {n}, v = {v}; larger "
            "samples lose nothing by the chernoff test"
        )
    wide = np.longdouble  # 64-bit mantissa where the machine has one; log_error follows it
    k = np.arange(n, dtype=wide)
    log_ratio = np.log((n - k) / (k + 1)) + (np.log(wide(v)) - np.log1p(-wide(v)))
    mode = min(n, int((n + 1) * v))
    log_pmf = np.zeros(n + 1)
    log_pmf[mode + 1 :] = np.cumsum(log_ratio[mode:])
    log_pmf[:mode] = -np.cumsum(log_ratio[:mode][::-1])[::-1]
    log_pmf -= special.logsumexp(log_pmf)
    log_cdf = np.logaddexp.accumulate(log_pmf)
    log_sum = np.logaddexp.accumulate(log_cdf)
    mean_below = np.arange(n + 1, dtype=np.float64)
    mean_below[1:] -= np.exp(log_sum[:-1] - log_cdf[1:])
    # Tails above 1e-300 lie within 40 standard deviations of the mode, so at most that
    # many steps of a running sum below 700 in size have been rounded.
    steps = min(n, 40 * int(np.sqrt(n)) + 40)
    log_error = float(700 * steps * np.finfo(wide).eps + 700 * 16 * np.finfo(np.float64).eps)
    return LowerTailTable(
        n,
        v,
        np.minimum(log_cdf, 0.0),
        log_sum,
        np.maximum.accumulate(mean_below),
        log_error,
    )


def _rates(rate: ArrayLike) -> Array:
    p = np.asarray(rate, dtype=np.float64)
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"rates must lie in [0, 1], got {p}")
    return p
