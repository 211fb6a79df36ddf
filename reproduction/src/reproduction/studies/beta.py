"""Beta draws from a table: exactly the beta law, at a fraction of the cost of two gammas.

The unit interval is cut into cells. Under the density lies, in each cell, a rectangle whose
area is a whole number of 2^-16: a draw from the rectangles is a cell and a uniform place in
it, and one random word gives both. What the rectangles leave over, about one draw in a hundred,
is drawn by rejection from the density less the rectangles. ``numpy.random.Generator.beta`` draws
the same law in three times the time, and `held_out` draws most of its losses from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

CELLS = 1024
PIECES, PLACES = 2**16, 2**48
"""A word's low 16 bits choose the cell, its high 48 bits the place in it."""


@dataclass(frozen=True, slots=True, eq=False)
class BetaLaw:
    """A beta law with both parameters above 1, ready to be drawn."""

    a: float
    b: float
    guide: NDArray[np.uint16]  # (PIECES,)  the cell of each piece, CELLS for what is left over
    left_over: Array  # (CELLS,)  distribution function of the cell of such a draw
    floor: Array  # (CELLS,)  height of each rectangle
    room: Array  # (CELLS,)  largest density above it

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draw independent values."""
        words = rng.integers(0, PIECES * PLACES, shape, dtype=np.uint64)
        cells = self.guide.take(words.astype(np.uint16))
        words >>= np.uint64(16)
        values = np.multiply(words.view(np.int64), 1.0 / PLACES)  # signed words convert faster
        values += cells
        values *= 1.0 / CELLS
        rest = np.flatnonzero(cells == CELLS)
        values.flat[rest] = self.draw_left_over(rng, rest.size)
        return values

    def draw_left_over(self, rng: np.random.Generator, size: int) -> Array:
        """Draw from the density less the rectangles: a cell by its area, a place by rejection."""
        cells = np.searchsorted(self.left_over, rng.random(size), side="right")
        values = np.empty(size)
        open_ = np.arange(size)
        while open_.size:
            cell = cells[open_]
            values[open_] = (cell + rng.random(open_.size)) / CELLS
            above = density(values[open_], self.a, self.b) - self.floor[cell]
            open_ = open_[rng.random(open_.size) * self.room[cell] >= above]
        return values


def density(x: Array, a: float, b: float) -> Array:
    """Return the beta density."""
    log = special.xlogy(a - 1.0, x) + special.xlog1py(b - 1.0, -x) - special.betaln(a, b)
    return np.asarray(np.exp(log))


@cache
def beta_law(a: float, b: float) -> BetaLaw:
    """Return the beta law with parameters above 1, whose density has one peak."""
    if min(a, b) <= 1.0:
        raise ValueError(f"the table needs a density with one peak, a and b above 1, got {a}, {b}")
    edges = np.arange(CELLS + 1) / CELLS
    height = density(edges, a, b)
    highest = np.maximum(height[:-1], height[1:])
    mode = (a - 1.0) / (a + b - 2.0)
    highest[int(mode * CELLS)] = density(np.array(mode), a, b)
    # With one peak the density is least at an end of the cell; rounding must not exceed it.
    lowest = np.minimum(height[:-1], height[1:]) * (1.0 - 1e-12)
    pieces = np.floor(lowest * PIECES / CELLS).astype(np.int64)
    guide = np.full(PIECES, CELLS, dtype=np.uint16)
    guide[: pieces.sum()] = np.repeat(np.arange(CELLS), pieces)
    areas = np.maximum(np.diff(special.betainc(a, b, edges)) - pieces / PIECES, 0.0)
    left_over = np.cumsum(areas) / areas.sum()
    left_over[-1] = 1.0
    floor = np.asarray(pieces * (CELLS / PIECES), dtype=np.float64)
    return BetaLaw(a, b, guide, left_over, floor, highest - floor)
