"""Laws and decisions that the count studies share, a whole block of repetitions at once.

A release with exact binomial p-values for one tolerance has the p-value of its largest
count, so the largest of independent counts is drawn by inversion of its own law: one
uniform a release instead of one binomial a requirement. The laws are exactly the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from proxyguard.exact.binomial import lower_tail, upper_tail
from proxyguard.exact.sharp import default_threshold, sharp_pvalue

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@cache
def _cdf(n: int, risk: float) -> Array:
    k = np.arange(n, dtype=np.float64)
    return np.append(special.betaincc(k + 1.0, n - k, risk), 1.0)


@cache
def largest_count_law(n: int, risks: tuple[float, ...]) -> Array:
    """Return the distribution function of the largest of independent binomial counts."""
    return np.asarray(np.prod([_cdf(n, risk) for risk in risks], axis=0))


def largest_counts(
    rng: np.random.Generator, n: int, risks: tuple[float, ...], shape: tuple[int, ...]
) -> Counts:
    """Draw the largest of independent counts, one for each release."""
    return np.searchsorted(largest_count_law(n, risks), rng.random(shape), side="left")


def mixed_counts(
    rng: np.random.Generator,
    n: int,
    valid: NDArray[np.bool_],
    risks: tuple[tuple[float, ...], tuple[float, ...]],
) -> Counts:
    """Draw the largest count of every release, of valid ones by the first law."""
    uniforms = rng.random(valid.shape)
    good = np.searchsorted(largest_count_law(n, risks[0]), uniforms, side="left")
    bad = np.searchsorted(largest_count_law(n, risks[1]), uniforms[~valid], side="left")
    good[~valid] = bad
    return good


@cache
def pvalue_table(n: int, tolerance: float) -> Array:
    """Return ``P(Bin(n, tolerance) <= k)`` for every count ``k``."""
    return lower_tail(np.arange(n + 1), n, tolerance)


@cache
def point_passes(n: int, tolerance: float) -> int:
    """Return the largest count whose share is at most the tolerance, as floats compare them."""
    return int(np.flatnonzero(np.arange(n + 1) / n <= tolerance)[-1])


def holm_recognized(counts: Counts, table: Array, alpha: float) -> Counts:
    """Return how many releases Holm recognizes in each row of counts (last axis: releases).

    In a row sorted by count the p-values are sorted too, so only the largest count that each
    step allows is needed, and one comparison of integers a step.
    """
    releases = counts.shape[-1]
    levels = alpha / np.arange(releases, 0, -1)
    most = np.searchsorted(table, levels, side="right") - 1  # largest count with p <= level
    passes = np.sort(counts, axis=-1) <= most
    return np.asarray(np.logical_and.accumulate(passes, axis=-1).sum(axis=-1))


def simes_recognized(counts: Counts, table: Array, alpha: float) -> Counts:
    """Return the tail-Simes count of each row (paper Eqs. (15)-(16))."""
    releases = counts.shape[-1]
    p = np.sort(table[counts], axis=-1)
    found = np.zeros(counts.shape[:-1], dtype=np.int64)
    alive = np.ones(counts.shape[:-1], dtype=bool)
    rank = np.arange(1.0, releases + 1.0)
    for k in range(releases):
        rows = p[alive, k:]
        passes = (rows <= alpha / (releases - k) * rank[: releases - k]).any(axis=-1)
        alive[alive] = passes
        if not alive.any():
            break
        found[alive] += 1
    return found


def fisher_recognized(counts: Counts, table: Array, alpha: float) -> Counts:
    """Return the tail-Fisher count of each row."""
    releases = counts.shape[-1]
    logs = np.log(np.maximum(table, np.finfo(np.float64).tiny))
    half = -np.sort(logs[counts], axis=-1)[..., ::-1].cumsum(axis=-1)[..., ::-1]
    limits = special.gammainccinv(np.arange(releases, 0, -1.0), alpha)
    passes = half >= limits  # the chi-square tail is at most alpha
    return np.asarray(np.logical_and.accumulate(passes, axis=-1).sum(axis=-1))


@cache
def reliability_pvalues(releases: int, target: float) -> Array:
    """Return ``P(Bin(R, eta_0) >= V)`` for every count ``V`` (paper Eq. (9))."""
    return upper_tail(np.arange(releases + 1), releases, target)


@cache
def sharp_pvalues(releases: int, target: float, threshold: float) -> Array:
    """Return the sharp p-value for every number of favorable scores."""
    return sharp_pvalue(np.arange(releases + 1), releases, target=target, kappa=threshold)


@cache
def sharp_threshold(releases: int, target: float, alpha: float) -> float:
    """Return the default threshold ``t`` of the sharp certificate, 0 if none can validate."""
    return default_threshold(releases, target=target, alpha=alpha) or 0.0


def favorable(counts: Counts, table: Array, threshold: float) -> Counts:
    """Return how many releases of each row have a p-value at most the threshold."""
    most = int(np.searchsorted(table, threshold, side="right")) - 1
    return np.asarray(np.count_nonzero(counts <= most, axis=-1))


def validated(pvalues: Array, alpha: float) -> NDArray[np.bool_]:
    """Return which mechanisms Holm validates in each row (last axis: mechanisms)."""
    mechanisms = pvalues.shape[-1]
    order = np.argsort(pvalues, axis=-1, kind="stable")
    levels = alpha / np.arange(mechanisms, 0, -1)
    passes = np.take_along_axis(pvalues, order, axis=-1) <= levels
    rejected = np.zeros(pvalues.shape, dtype=bool)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(passes, axis=-1), axis=-1)
    return rejected


def any_of(decisions: NDArray[np.bool_]) -> Array:
    """Return 1 for every repetition in which something was decided."""
    return np.asarray(decisions.any(axis=tuple(range(1, decisions.ndim))), dtype=np.float64)


def share_of(decisions: NDArray[np.bool_], axes: Sequence[int] = (1,)) -> Array:
    """Return the share of decisions in every repetition."""
    return np.asarray(decisions.mean(axis=tuple(axes)))
