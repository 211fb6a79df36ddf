"""Sums of values in [0, 1] that know neither the order nor the grouping of their terms.

A sum of doubles depends on the order in which it is formed, so that ``[.1, .2, .3]`` and
``[.3, .2, .1]`` have different means, and a release would score by the order of the records,
the number of chunks or the processor's vector width. Here every value is the sum of two whole
numbers of fixed units, and whole numbers add without error in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.rounding import Array

# The two units. What is lost of a value is at most half of the fine one, 2.8e-17.
COARSE, FINE = 2.0**-26, 2.0**-54

# Adding and subtracting 1.5 * 2^52 units rounds to the nearest multiple of a unit.
_COARSE_ROUNDING, _FINE_ROUNDING = 1.5 * 2.0**52 * COARSE, 1.5 * 2.0**52 * FINE

# Values summed at once: 2^26 of at most 2^27 units stay below 2^53, where doubles are exact.
SPAN = 1 << 26


def split(values: Array) -> tuple[Array, Array]:
    """Return values in [0, 1] as multiples of the coarse and of the fine unit.

    The coarse part leaves a rest of at most ``2^-27``, which the subtraction gives exactly.
    """
    coarse = values + _COARSE_ROUNDING
    coarse -= _COARSE_ROUNDING
    fine = values - coarse
    fine += _FINE_ROUNDING
    fine -= _FINE_ROUNDING
    return coarse, fine


def run_sums(values: Array, starts: NDArray[np.intp]) -> Array:
    """Return the sums of runs of columns, each from its start to the next, for every row."""
    coarse, fine = split(values)
    total = np.add.reduceat(coarse, starts, axis=1)
    total += np.add.reduceat(fine, starts, axis=1)
    return np.asarray(total)


class ExactSums:
    """Running sums of rows of values in [0, 1], some slots a row.

    Guarantee
    ---------
    The totals are a function of the multiset of values added to each slot: the order, the
    chunks and the machine do not enter. A mean over ``n <= 2^36`` values errs by at most
    ``2^-55`` for what the split leaves out and ``2^-51`` for the last roundings, 5e-16 together.
    """

    def __init__(self, rows: int, slots: int = 1) -> None:
        self._coarse = np.zeros((rows, slots), dtype=np.int64)
        self._fine = np.zeros((rows, slots), dtype=np.int64)

    def add(self, values: Array) -> Array:
        """Add every column of ``values`` (rows, m) to the first slot; return what was added."""
        added = np.zeros(values.shape[0])
        for start in range(0, values.shape[1], SPAN):
            coarse, fine = (part.sum(axis=1) for part in split(values[:, start : start + SPAN]))
            self._coarse[:, 0] += _units(coarse, COARSE)
            self._fine[:, 0] += _units(fine, FINE)
            added += coarse + fine
        return added

    def add_by_slot(self, values: Array, slots: NDArray[np.intp]) -> None:
        """Add each column of ``values`` (rows, m) to the slot that stands for it."""
        order = np.argsort(slots, kind="stable")
        for start in range(0, order.size, SPAN):
            some = order[start : start + SPAN]
            labels, starts = np.unique(slots[some], return_index=True)
            coarse, fine = split(values[:, some])
            self._coarse[:, labels] += _units(np.add.reduceat(coarse, starts, axis=1), COARSE)
            self._fine[:, labels] += _units(np.add.reduceat(fine, starts, axis=1), FINE)

    def totals(self) -> Array:
        """Return the sums, (rows, slots)."""
        return self._coarse * COARSE + self._fine * FINE


def _units(sums: Array, unit: float) -> NDArray[np.int64]:
    return np.asarray(sums / unit).astype(np.int64)
