"""Floating point may only weaken a claim; this file says by how much.

Every limit and p-value that leaves `exact/` passes through one of these
functions. The guards are far above the error of the special functions used
and far below any printed digit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

GUARD = 1e-12
"""Relative guard on limits and p-values; functions whose error grows with n add their own."""

MEAN_GUARD = 1e-13
"""Absolute guard on a mean of values in [0, 1]: what putting them on the unit scale, summing
them and dividing may err by together, with room for one `TIE_GUARD` on top."""

TIE_GUARD = 4e-14
"""How far above its cutoff a computed mean still counts as lying on it.

`ExactSums` errs by 5e-16. A loss whose range lies within 64 widths of 0 errs by 2.2e-14 on the
unit scale: the value, the lower bound and the width are each written to half a last place, 7e-15.
So a mean that is on its cutoff as the numbers are written never misses it."""

TINY = float(np.finfo(np.float64).tiny)
"""Least p-value reported: a smaller one would be a claim that doubles cannot carry."""


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
