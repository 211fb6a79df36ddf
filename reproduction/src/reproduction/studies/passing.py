"""Decisions of each mode from one function: how many releases pass a test at a level.

A row is one repetition: one mechanism, ``R`` releases and one shared target. Holm's procedure,
the sharp certificate and the e-value count ask only how many releases of a row have a p-value
at most a level, so no p-value is formed where a test has a closed form. The guards of ``exact``
(1e-12) are left out: simulated losses have no ties that they would decide.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import lower_tail_table
from proxyguard.exact.contamination import threshold_ceiling
from proxyguard.modes.planning import least_recognized, lower_limits
from reproduction.studies.counts import Array, sharp_pvalues, sharp_threshold

Counts = NDArray[np.int64]
Decisions = NDArray[np.bool_]
Passing = Callable[[Array, Counts], Counts]
"""From a level a row, and the rows asked about, to how many of its releases pass."""
Ceiling = Callable[[float], float]
"""From the threshold of a score to how often an invalid release scores, at the most."""

COUNT_THRESHOLD = Fraction(1, 100)
COUNT_TARGET, COUNT_DRAWS = Fraction(45, 1000), 0.005
"""Calibrator and split of the e-value count (theory section 3)."""


def count_true(passes: Decisions) -> Counts:
    """Return how many are true along the last axis."""
    return np.asarray(np.count_nonzero(passes, axis=-1), dtype=np.int64)


def holm_reaches(
    passing: Passing, shape: tuple[int, int], *, alpha: float, needed: int
) -> Decisions:
    """Return in which rows Holm recognizes at least ``needed`` releases; shape is (rows, R).

    Holm's levels only rise, so when ``c`` releases pass at the level of one step, the steps up
    to ``c`` hold: the next one to look at is ``c + 1``, and no p-value has to be sorted.
    """
    total, releases = shape
    hold = np.zeros(total, dtype=np.int64)  # steps known to hold
    if needed > releases:
        return hold > releases
    rows = np.arange(total)
    last = np.full(total, alpha / (releases - needed + 1))
    rows = rows[passing(last, rows) >= needed]
    while rows.size:
        step = hold[rows]
        count = passing(alpha / (releases - step), rows)
        hold[rows] = np.maximum(count, step)
        rows = rows[(count > step) & (count < needed)]
    return hold >= needed


def named_validates(
    passing: Passing, shape: tuple[int, int], *, levels: tuple[float, float], target: float
) -> Decisions:
    """Return which rows named mode validates; levels of the releases and the mechanism."""
    needed = least_recognized(shape[1], target=target, alpha=levels[1])
    return holm_reaches(passing, shape, alpha=levels[0], needed=needed)


def passing_at(passing: Passing, rows: int, level: float) -> Counts:
    """Return how many releases of each row pass at one level."""
    return passing(np.full(rows, level), np.arange(rows))


def pvalue_passing(pvalues: Array) -> Passing:
    """Return the count of passing releases for p-values at hand, (rows, R)."""
    return lambda levels, rows: count_true(pvalues[rows] <= levels[:, None])


def slack_validates(
    scores: Counts, releases: int, *, allowance: float, level: float, target: float
) -> Decisions:
    """Return which rows the paper's direct bound validates (Eq. (13)); level is ``alpha_Q``."""
    return np.asarray((lower_limits(releases, level) - allowance > target)[scores])


def rescaled_validates(
    scores: Counts, releases: int, *, allowance: float, level: float, target: float
) -> Decisions:
    """Return which rows the rescaled bound ``(pi - c)/(1 - c)`` validates (theory section 2)."""
    if allowance >= 1.0:
        return np.zeros(scores.shape, dtype=bool)
    bounds = (lower_limits(releases, level) - allowance) / (1.0 - allowance)
    return np.asarray((bounds > target)[scores])


def sharp_validates(
    scores: Counts, releases: int, *, kappa: float, alpha: float, target: float
) -> Decisions:
    """Return which rows the sharp certificate validates (theory section 2)."""
    return np.asarray((sharp_pvalues(releases, target, kappa) <= alpha)[scores])


def attainable(n: int, *limits: float) -> Ceiling:
    """Return the ceiling of exact binomial p-values: the largest attainable one (theory 2)."""
    return lambda t: max(threshold_ceiling(t, two_valued=(n, limit)) for limit in limits)


def threshold_itself(threshold: float) -> float:
    """Return the ceiling of every other p-value."""
    return threshold


def sharp_by_test(
    passing: Passing,
    shape: tuple[int, int],
    *,
    alpha: float,
    target: float,
    ceiling: Ceiling = threshold_itself,
) -> Decisions:
    """Return which rows the sharp certificate validates at its default threshold."""
    rows, releases = shape
    threshold = sharp_threshold(releases, target, alpha)
    if threshold == 0.0:  # so few releases cannot validate
        return np.zeros(rows, dtype=bool)
    scores = passing_at(passing, rows, threshold)
    kappa = ceiling(threshold)
    return sharp_validates(scores, releases, kappa=kappa, alpha=alpha, target=target)


def most_invalid(scores: Counts, releases: int, *, threshold: Fraction, alpha: Fraction) -> Counts:
    """Return ``m*``, the largest ``m <= R`` with ``(m - (R - N)) alpha < m t`` (theory section 3).

    In whole numbers, for ``t < alpha``: ties must not be left to rounding.
    """
    ratio = alpha / (alpha - threshold)
    below = ((releases - scores) * ratio.numerator - 1) // ratio.denominator
    return np.clip(below, 0, releases)


def count_validates(scores: Counts, releases: int, *, target: float) -> Decisions:
    """Return which rows the e-value count validates, scores being p-values at most ``t``."""
    invalid = most_invalid(scores, releases, threshold=COUNT_THRESHOLD, alpha=COUNT_TARGET)
    return np.asarray((lower_limits(releases, COUNT_DRAWS) > target)[releases - invalid])


def bentkus_cutoffs(n: int, limit: float, levels: Array) -> Array:
    """Return the largest mean whose Bentkus p-value is at most each level.

    ``sum_{k<h} F(k)/(h - s) <= level`` for some ``h`` means ``s <= h - sum_{k<h} F(k)/level``.
    The right side is concave in ``h``, largest at the least ``h`` with ``F(h) >= level``.
    """
    table = lower_tail_table(n, limit)
    h = np.searchsorted(table.log_cdf, np.log(levels))
    before = np.exp(table.log_sum_cdf[np.maximum(h - 1, 0)])
    return np.asarray(np.where(h > 0, h - before / levels, -1.0) / n)
