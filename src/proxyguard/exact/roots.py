"""Monotone inversion where no closed form exists, ending on the safe side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.rounding import Array


def bracket_switch(
    holds: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array, *, steps: int = 60
) -> tuple[Array, Array]:
    """Return ``(last, first)``: a bracket of the point where ``holds`` turns true.

    ``holds`` is false, then true, as its argument grows from ``low`` to ``high``,
    elementwise. The caller takes whichever end weakens its claim. ``holds`` is never
    evaluated at the ends themselves.
    """
    last = np.array(low, dtype=np.float64)
    first = np.array(high, dtype=np.float64)
    for _ in range(steps):
        middle = 0.5 * (last + first)
        if not np.any((last < middle) & (middle < first)):
            break
        true = holds(middle)
        first = np.where(true, middle, first)
        last = np.where(true, last, middle)
    return last, first
