"""Distances, nearest points and densities, each a function of one point to the last bit.

Rows are computed in blocks, so that memory does not grow with their number, and a row's result
does not depend on its block: distances are computed pair by pair (never through a matrix product,
which also loses the digits that tell a copy from a near copy), other steps work on single elements,
and sums are halved in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from proxyguard.exact.rounding import Array

Indices = NDArray[np.intp]

# Numbers of a block, 2 MB: it stays in the processor's cache.
BLOCK = 1 << 18
# Above, a tree looks at almost every point and a plain pass is faster.
TREE_DIMENSIONS = 16


def blocks(rows: int, width: int) -> Iterator[slice[int, int, None]]:
    """Yield slices of rows, so that each block of ``width`` columns fits in `BLOCK`."""
    step = max(1, BLOCK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def row_sums(terms: Array) -> Array:
    """Return the sum of each row, and spoil ``terms``.

    The last half is added to the first until one column is left: an order that neither the number
    of rows nor memory layout changes, as those of numpy's sums do.
    """
    width = terms.shape[-1]
    if width == 0:
        return np.zeros(terms.shape[:-1])
    while width > 1:
        half = width // 2
        terms[..., :half] += terms[..., width - half : width]
        width -= half
    return terms[..., 0].copy()


def moved(points: Array, center: Array, axes: Array) -> Array:
    """Return ``(points - center) @ axes``, added up axis by axis for each point alone."""
    shifted = points - center
    product = np.zeros((len(points), axes.shape[1]))
    for k in range(axes.shape[0]):
        product += shifted[:, k, None] * axes[k]
    return product


class Neighbors:
    """Points among which the nearest to others are looked for.

    Parameters
    ----------
    points
        ``(m, d)``, at least one.
    """

    def __init__(self, points: Array) -> None:
        self.points = np.ascontiguousarray(points)

    @cached_property
    def _tree(self) -> cKDTree | None:
        return cKDTree(self.points) if self.points.shape[1] <= TREE_DIMENSIONS else None

    def nearest(self, rows: Array, count: int) -> tuple[Array, Indices]:
        """Return Euclidean distances to the nearest points, ascending, and which ones they are.

        Both are ``(n, count)``, or as many columns as there are points if those are fewer.
        """
        count = min(count, len(self.points))
        distances = np.empty((len(rows), count))
        indices = np.empty((len(rows), count), dtype=np.intp)
        for block in blocks(len(rows), max(len(self.points), count)):
            if self._tree is not None:
                near = self._tree.query(rows[block], k=range(1, count + 1))
                distances[block], indices[block] = near[0], near[1]
                continue
            squares = cdist(rows[block], self.points, "sqeuclidean")
            indices[block] = smallest(squares, count)
            distances[block] = np.sqrt(np.take_along_axis(squares, indices[block], axis=1))
        return distances, indices

    def within(self, rows: Array, limits: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many points lie below each row's distance, and how many at it exactly."""
        below = np.empty(len(rows), dtype=np.int64)
        at = np.empty(len(rows), dtype=np.int64)
        for block in blocks(len(rows), len(self.points)):
            distances = cdist(rows[block], self.points, "euclidean")
            limit = limits[block, None]
            below[block] = np.count_nonzero(distances < limit, axis=1)
            at[block] = np.count_nonzero(distances == limit, axis=1)
        return below, at


def smallest(squares: Array, count: int) -> Indices:
    """Return where the smallest of each row stand, ascending; of equal ones the first."""
    if count == 1:
        return np.asarray(np.argmin(squares, axis=1))[:, None]
    chosen = np.argpartition(squares, count - 1, axis=1)[:, :count]
    last = np.take_along_axis(squares, chosen, axis=1).max(axis=1)
    # Which of several equal ones a partition leaves inside depends on the processor.
    for k in np.flatnonzero(np.count_nonzero(squares <= last[:, None], axis=1) > count):
        near = np.flatnonzero(squares[k] <= last[k])
        chosen[k] = near[np.argsort(squares[k, near], kind="stable")[:count]]
    chosen.sort(axis=1)
    order = np.argsort(np.take_along_axis(squares, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


def silverman(rows: int, dimension: int) -> float:
    """Return Silverman's factor of the bandwidth, ``(n (d + 2) / 4)^(-1 / (d + 4))``."""
    return float((rows * (dimension + 2.0) / 4.0) ** (-1.0 / (dimension + 4.0)))


def scott(rows: int, dimension: int) -> float:
    """Return Scott's factor of the bandwidth, ``n^(-1 / (d + 4))``."""
    return float(rows ** (-1.0 / (dimension + 4.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Coordinates in which the sample covariance of some points is the identity.

    Attributes
    ----------
    center
        The mean.
    axes
        ``(d, d)``, what turns shifted points into these coordinates.
    log_volume
        The logarithm of the square root of the covariance's determinant.
    """

    center: Array
    axes: Array
    log_volume: float

    @classmethod
    def of(cls, points: Array, floor: float) -> Whitening:
        """Return them; a direction in which points deviate by less than ``floor`` deviates by it.

        Without that, points that are fewer than dimensions, or all alike, would have no density.
        """
        center = points.mean(axis=0)
        shifted = points - center
        covariance = shifted.T @ shifted / max(1, len(points) - 1)
        variances, directions = np.linalg.eigh(covariance)
        deviations = np.sqrt(np.maximum(variances, floor * floor))
        return cls(center, directions / deviations, float(np.log(deviations).sum()))

    def of_rows(self, rows: Array) -> Array:
        """Return rows in these coordinates."""
        return moved(rows, self.center, self.axes)


class Density:
    """The logarithm of a Gaussian kernel density estimate.

    Parameters
    ----------
    points
        ``(m, d)``, where the kernels stand, at least one.
    factor
        The bandwidth, in units of the whitening's coordinates.
    whitening
        Coordinates in which kernels are round; nothing: those of the points.
    """

    def __init__(self, points: Array, factor: float, whitening: Whitening | None = None) -> None:
        count, dimension = points.shape
        self._whitening, self._factor = whitening, factor
        self._points = self._scaled(points)
        log_volume = 0.0 if whitening is None else whitening.log_volume
        self.log_peak = -(dimension * (0.5 * np.log(2.0 * np.pi) + np.log(factor)) + log_volume)
        """The logarithm of one kernel at its point."""
        self._log_constant = float(self.log_peak - np.log(count))

    def _scaled(self, rows: Array) -> Array:
        coordinates = rows if self._whitening is None else self._whitening.of_rows(rows)
        return np.ascontiguousarray(coordinates / self._factor)

    def logs(self, rows: Array) -> Array:
        """Return the log density at each row; never infinite, also far out in the tails."""
        logs = np.empty(len(rows))
        for block in blocks(len(rows), len(self._points)):
            squares = cdist(self._scaled(rows[block]), self._points, "sqeuclidean")
            nearest = squares.min(axis=1)
            # Densities underflow in the tails, where their ties would decide an AUC.
            squares -= nearest[:, None]
            squares *= -0.5
            np.exp(squares, out=squares)
            logs[block] = np.log(row_sums(squares)) - 0.5 * nearest + self._log_constant
        return logs
