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
"""Absolute guard on a mean of values in [0, 1]; summing a million of them errs by about 1e-15."""

TINY = float(np.finfo(np.float64).tiny)
"""Least p-value reported: a smaller one would be a claim that doubles cannot carry."""


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
