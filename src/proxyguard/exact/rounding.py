"""Floating point may only weaken a claim; this file says by how much.

Every limit and p-value that leaves `exact/` passes through one of these
functions. The guards are far above the error of the special functions used
and far below any printed digit. Where no closed form exists, `bracket_switch`
gives both ends, and its caller takes the one that weakens the claim.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Relative guard on limits and p-values; functions whose error grows with n add their own.
GUARD = 1e-12

# Absolute guard on a mean of values in [0, 1]: what putting them on the unit scale, summing them
# and dividing may err by together, with room for one `TIE_GUARD` on top.
MEAN_GUARD = 1e-13

# How far above its cutoff a computed mean still counts as lying on it.
#
# `ExactSums` errs by 5e-16. A loss whose range lies within 64 widths of 0, which a slack asks for,
# errs by 2.2e-14 on the unit scale: the value, the lower bound and the width are each written to
# half a last place, 7e-15. So a mean that is on its cutoff as the numbers are written never misses
# it.
TIE_GUARD = 4e-14

# Least p-value reported: a smaller one would be a claim that doubles cannot carry.
TINY = float(np.finfo(np.float64).tiny)


def at_most(mean: ArrayLike, cutoff: ArrayLike) -> NDArray[np.bool_]:
    """Return which means lie at or below their cutoffs, ties included (paper Eq. (10)).

    Guarantee
    ---------
    Let the computed mean be within `TIE_GUARD` of the mean itself. A mean at or below the
    cutoff is then always included, whatever the order of summation made of its last places.
    And whatever is included has a mean of at most ``cutoff + 2 TIE_GUARD``, which two roundings
    of ``1e-16`` keep below ``cutoff + MEAN_GUARD``: every ceiling of `exact.contamination` is
    the chance at that moved cutoff, so the tie is paid for.
    """
    return np.asarray(
        np.asarray(mean, dtype=np.float64) <= np.asarray(cutoff, dtype=np.float64) + TIE_GUARD
    )


def weaken_lower(limit: ArrayLike) -> NDArray[np.float64]:
    """Move a lower confidence limit in [0, 1] down by the guard."""
    return np.maximum(0.0, np.asarray(limit, dtype=np.float64) * (1.0 - GUARD))


def weaken_upper(limit: ArrayLike) -> NDArray[np.float64]:
    """Move an upper confidence limit in [0, 1] up by the guard, by 1e-15 at the least."""
    value: NDArray[np.float64] = np.asarray(limit, dtype=np.float64)
    return np.asarray(np.minimum(1.0, value + GUARD * np.maximum(value, 1e-3)))


def weaken_pvalue(pvalue: ArrayLike) -> NDArray[np.float64]:
    """Move a p-value up by the guard, into ``[TINY, 1]``."""
    return np.clip(np.asarray(pvalue, dtype=np.float64) * (1.0 + GUARD), TINY, 1.0)


def pvalue_from_log(log_pvalue: ArrayLike) -> NDArray[np.float64]:
    """Return the p-value with this logarithm, moved up by the guard, in ``[TINY, 1]``.

    Notes
    -----
    A logarithm ``x`` carries an absolute error of about ``|x| eps``, which becomes the
    relative error of the p-value; the guard is widened accordingly.
    """
    log_pvalue = np.clip(np.asarray(log_pvalue, dtype=np.float64), -1e6, 0.0)
    widened = log_pvalue + GUARD + 8.0 * np.finfo(np.float64).eps * np.abs(log_pvalue)
    with np.errstate(under="ignore"):
        return np.asarray(np.clip(np.exp(np.minimum(0.0, widened)), TINY, 1.0))


def round_up(values: ArrayLike, digits: int) -> NDArray[np.float64]:
    """Move values up to a multiple of ``10^-digits``.

    What lies on a multiple but for four last places stays there, so that rounding twice is
    rounding once; the guards of means and of logarithms are far wider than that.
    """
    # 0.0 - x and not -x: a zero has one spelling in the record.
    return np.asarray(0.0 - round_down(-np.asarray(values, dtype=np.float64), digits))


def round_down(values: ArrayLike, digits: int) -> NDArray[np.float64]:
    """Move values down to a multiple of ``10^-digits``, infinities left as they are."""
    value = np.asarray(values, dtype=np.float64)
    scaled = value * 10.0**digits
    nearest = np.rint(scaled)
    with np.errstate(invalid="ignore"):  # inf - inf, where the value is kept
        on = np.abs(scaled - nearest) <= 4.0 * np.finfo(np.float64).eps * np.abs(nearest)
    steps = np.where(on, nearest, np.floor(scaled))
    # Adding 0.0 turns -0.0, which has another spelling, into 0.0.
    return np.where(np.isfinite(value), steps / 10.0**digits + 0.0, value)


def round_count_up(count: NDArray[np.int64] | np.int64, n: int, digits: int) -> NDArray[np.int64]:
    """Return the largest count out of ``n`` whose share rounds up like that of ``count``.

    In whole numbers: with ``g = 10^digits`` the share is published as ``ceil(g k/n)/g``, and
    the largest whole number of records that it allows is what a test may be told.
    """
    if n == 0:
        return np.asarray(count)
    grid = 10**digits
    return np.asarray(-(-count * grid // n) * n // grid)


def round_count_down(count: NDArray[np.int64], n: int, digits: int) -> NDArray[np.int64]:
    """Return the least count out of ``n`` whose share rounds down like that of ``count``."""
    return n - round_count_up(n - count, n, digits)


def count_variance(n: int, high: NDArray[np.int64], low: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the largest Bessel variance of ``n`` losses of 0 and 1 with a count in between.

    For a count that was rounded up and down: rounded on its own, a variance could say more.
    """
    half = np.clip(n / 2.0, low, high)  # the variance is largest where the share is one half
    share = half / max(n, 1)
    return np.asarray(share * (1.0 - share) * n / max(n - 1, 1))


def round_pvalue(pvalues: ArrayLike, digits: int) -> NDArray[np.float64]:
    """Move p-values up to so many significant digits: one of ``1e-7`` stays far below ``.001``."""
    values = np.asarray(pvalues, dtype=np.float64)
    distinct, where = np.unique(values, return_inverse=True)
    context = Context(prec=digits, rounding=ROUND_CEILING)
    # The shortest decimal that reads back as the p-value; reading back keeps the order, so the
    # result is never below it.
    rounded = [float(context.create_decimal(Decimal(repr(p)))) for p in distinct.tolist()]
    return np.array(rounded, dtype=np.float64)[where].reshape(values.shape)


def bracket_switch(
    holds: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array, *, steps: int = 60
) -> tuple[Array, Array]:
    """Return ``(last, first)``: a bracket of the point where ``holds`` turns true.

    ``holds`` is false, then true, as its argument grows from ``low`` to ``high``,
    elementwise. The caller takes whichever end weakens its claim. ``holds`` is never
    evaluated at the ends of an interval, unless there is nothing between them.
    """
    last = np.array(low, dtype=np.float64)
    first = np.array(high, dtype=np.float64)
    asked = middle = 0.5 * (last + first)
    for _ in range(steps):
        inside = (last < middle) & (middle < first)
        if not np.any(inside):
            break
        # Where nothing is left between them, rounding has put the middle on an end: what was asked
        # before is asked again there, and changes nothing.
        asked = np.where(inside, middle, asked)
        true = holds(asked)
        first = np.where(inside & true, asked, first)
        last = np.where(inside & ~true, asked, last)
        middle = 0.5 * (last + first)
    return last, first
