"""Membership attacks: a number for each record, larger where it looks like a member.

All of them measure in one `Representation`. `Ground` holds what a release gives and several attacks
share, `View` what some rows are to it. An attack reads release, members, reference and the
attacker's seed, and of the rows that it scores one at a time: a radius, a bandwidth or a median of
the scored rows would make the score of one depend on the others, and the theorems on exposure are
about a fixed function of one record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.spatial.distance import cdist

from proxyguard.errors import UnsupportedDesign
from proxyguard.exact.rounding import Array
from proxyguard.exposure.geometry import (
    BLOCK,
    Density,
    Indices,
    Neighbors,
    Whitening,
    blocks,
    row_sums,
    scott,
    silverman,
)
from proxyguard.exposure.representation import Rows

# Keeps the attacker's streams apart from those that a caller made of the same seed.
_STREAM = 0x6578706F
RELEASE, REFERENCE, FOREST = range(3)
TREES, LEAF = 100, 5
# Deviation that points of a density have at least in every direction.
#
# The categories of a column sum to one, and a column may be constant: in such a direction points
# deviate by the noise alone, which would then decide every density.
NARROWEST = 1e-3


class Ground:
    """What attacks on one release share.

    Parameters
    ----------
    release, reference, members
        Rows of the release, of others, and those that it was made from.
    seed, draw
        The attacker's, and that of the release. Noise on reference rows is of the first alone, so
        that what they give is worked out once for all releases.

    Raises
    ------
    UnsupportedDesign
        One of them has no rows, or they are not in one representation.
    """

    def __init__(
        self, release: Rows, reference: Rows, members: Rows, seed: int, draw: int = 0
    ) -> None:
        given = {"release": release, "reference": reference, "members": members}
        for name, rows in given.items():
            if len(rows) == 0:
                raise UnsupportedDesign(f"the {name} of an attack has no rows")
            if rows.representation is not release.representation:
                raise UnsupportedDesign(
                    f"the {name} and the release are in two representations, whose distances "
                    "cannot be compared; make Rows of one"
                )
        self.release, self.reference, self.members = release, reference, members
        self.seed, self._draw = seed, draw
        self._densities: dict[float, Density] = {}

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return self.release.representation.dimension

    @cached_property
    def synthetic(self) -> Neighbors:
        """The points of the release."""
        return Neighbors(self.release.array)

    @property
    def others(self) -> Neighbors:
        """The points of the reference."""
        reference = self.reference
        return reference.keep("neighbors", lambda: Neighbors(reference.array), Neighbors)

    @cached_property
    def _members_view(self) -> View:
        return View(self, self.members)

    @cached_property
    def radius(self) -> float:
        """The median of the members' distances to the release."""
        return float(np.median(self._members_view.distances(1)[:, 0]))

    def generator(self, purpose: int) -> np.random.Generator:
        """Return the attacker's random stream of one purpose."""
        draw = [] if purpose == REFERENCE else [self._draw]
        return np.random.default_rng([_STREAM, self.seed, purpose, *draw])

    def jittered(self, rows: Rows, jitter: float, purpose: int) -> Array:
        """Return points with the attacker's noise, so that no two stand at one place."""
        return rows.array + self.generator(purpose).normal(0.0, jitter, rows.array.shape)

    def synthetic_density(self, jitter: float) -> Density:
        """Return the density of the release, by Scott's rule."""
        if jitter not in self._densities:
            points = self.jittered(self.release, jitter, RELEASE)
            factor = scott(len(points), self.dimension)
            self._densities[jitter] = Density(points, factor, Whitening.of(points, NARROWEST))
        return self._densities[jitter]

    def reference_density(self, jitter: float) -> Density:
        """Return the density of the reference, by Scott's rule."""

        def make() -> Density:
            points = self.jittered(self.reference, jitter, REFERENCE)
            factor = scott(len(points), self.dimension)
            return Density(points, factor, Whitening.of(points, NARROWEST))

        return self.reference.keep(("scott", jitter, self.seed), make, Density)


class View:
    """Some rows, as the attacks on one release see them; what two of them ask is computed once."""

    def __init__(self, ground: Ground, rows: Rows) -> None:
        self.ground, self.rows = ground, rows
        self._near: dict[int, tuple[Array, Indices]] = {}
        self._logs: dict[float, Array] = {}

    def near(self, count: int) -> tuple[Array, Indices]:
        """Return distances to the nearest rows of the release, and which they are."""
        if count not in self._near:
            self._near[count] = self.ground.synthetic.nearest(self.rows.array, count)
        return self._near[count]

    def distances(self, count: int) -> Array:
        """Return the distances to the nearest rows of the release alone."""
        enough = [more for more in self._near if more >= count]
        return self.near(min(enough, default=count))[0][:, :count]

    def reference_distances(self, count: int) -> Array:
        """Return the distances to the nearest rows of the reference, the same for all releases."""
        others, array = self.ground.others, self.rows.array
        return self.rows.keep((others, count), lambda: others.nearest(array, count)[0], np.ndarray)

    def log_synthetic(self, jitter: float) -> Array:
        """Return the log density of the release."""
        if jitter not in self._logs:
            density = self.ground.synthetic_density(jitter)
            self._logs[jitter] = density.logs(self.rows.array)
        return self._logs[jitter]

    def log_reference(self, jitter: float) -> Array:
        """Return the log density of the reference, the same for all releases."""
        density, array = self.ground.reference_density(jitter), self.rows.array
        return self.rows.keep(density, lambda: density.logs(array), np.ndarray)


class Attack(Protocol):
    """One attack on one release, fitted."""

    @property
    def neighbors(self) -> int:
        """How many of the nearest rows of the release it asks for, 0 if none."""

    def score(self, view: View) -> Array:
        """Return a number for each row, larger where it looks like a member; never NaN."""


@dataclass(frozen=True, slots=True)
class ClosestDistance:
    """DCR: minus the distance to the nearest row of the release."""

    neighbors: int = 1

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        return -view.distances(1)[:, 0]


@dataclass(frozen=True, slots=True)
class CalibratedDistance:
    """The distance to the nearest reference row less that to the nearest row of the release."""

    neighbors: int = 1

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        return view.reference_distances(1)[:, 0] - view.distances(1)[:, 0]


@dataclass(frozen=True, slots=True)
class DistanceRatio:
    """Minus the ratio of the distances to the nearest and the second nearest row of the release.

    A copy has the ratio 0, also where the release has it twice. In a release of one row all
    ratios are 1.
    """

    neighbors: int = 2

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        distances = view.distances(2)
        if distances.shape[1] == 1:
            return np.full(len(distances), -1.0)
        nearest, second = distances[:, 0], distances[:, 1]
        return -np.divide(nearest, second, out=np.zeros(len(nearest)), where=second > 0.0)


@dataclass(frozen=True, slots=True)
class DensityScore:
    """The log density of the release, a Gaussian kernel estimate with full covariance."""

    jitter: float
    neighbors: int = 0

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        return view.log_synthetic(self.jitter)


@dataclass(frozen=True, slots=True)
class Domias:
    """DOMIAS: the log density of the release less that of the reference."""

    jitter: float
    neighbors: int = 0

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        return view.log_synthetic(self.jitter) - view.log_reference(self.jitter)


class GenLra:
    """Gen-LRA with a fixed round kernel.

    How much more likely the reference with the row makes the rows of the release near it than the
    reference without: the sum over them of ``log((n p(z) + K(z - x)) / (n + 1)) - log p(z)``.

    Parameters
    ----------
    ground
        The release and the reference.
    count
        How many rows of the release count as near.
    """

    def __init__(self, ground: Ground, count: int) -> None:
        reference = ground.reference
        self.neighbors, self._size = count, len(reference)
        self._width = silverman(self._size, ground.dimension)
        density = reference.keep(
            "silverman", lambda: Density(reference.array, self._width), Density
        )
        self._log_peak = density.log_peak
        self._logs = density.logs(ground.release.array)  # at each row of the release, once

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        distances, indices = view.near(self.neighbors)
        scaled = distances / self._width
        before = self._logs[indices]
        kernels = self._log_peak - 0.5 * scaled * scaled
        together = np.logaddexp(before + np.log(self._size), kernels)
        return row_sums(together - before - np.log(self._size + 1.0))


class GenLraRefit:
    """Gen-LRA as its authors publish it: the reference's density is fitted again with the row.

    Full covariance and Silverman's rule, with the row and without. The covariance with one row
    more is a change of rank one, so that nothing has to be inverted again.

    Parameters
    ----------
    ground
        The release and the reference.
    count
        How many rows of the release count as near.
    jitter
        Deviation of the noise that is added to the reference.
    """

    def __init__(self, ground: Ground, count: int, jitter: float) -> None:
        reference = ground.reference
        self.neighbors = count
        points = ground.jittered(reference, jitter, REFERENCE)
        size, dimension = points.shape
        self._whitening = Whitening.of(points, NARROWEST)
        self._reference = self._whitening.of_rows(points)
        self._release = self._whitening.of_rows(ground.release.array)
        density = Density(points, silverman(size, dimension), self._whitening)
        self._logs = density.logs(ground.release.array)
        self._factor = silverman(size + 1, dimension)
        # Kept where it is small; else worked out for the near rows of each record again.
        self._squares = (
            cdist(self._release, self._reference, "sqeuclidean")
            if size * len(self._release) <= 32 * BLOCK
            else None
        )

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        _, indices = view.near(self.neighbors)
        rows = self._whitening.of_rows(view.rows.array)
        scores = np.empty(len(rows))
        for block in blocks(len(rows), indices.shape[1] * (len(self._reference) + 1)):
            after = self._logs_with(rows[block], indices[block])
            scores[block] = row_sums(after - self._logs[indices[block]])
        return scores

    def _logs_with(self, rows: Array, indices: Indices) -> Array:
        """Return the log density with each row at the near rows of the release."""
        size, dimension = self._reference.shape
        # With x the covariance is a I + b x x' in these coordinates, whose origin is the mean.
        a, b = (size - 1.0) / size, 1.0 / (size + 1.0)
        length = _lengths(rows)
        towards = np.divide(
            rows, length[:, None], out=np.zeros_like(rows), where=length[:, None] > 0.0
        )
        growth = b * length * length / a
        shrink = growth / (1.0 + growth)
        near = self._release[indices]  # (n, k, d)
        squares = np.empty((*indices.shape, size + 1))
        squares[..., :size] = self._reference_squares(indices)
        apart = near - rows[:, None, :]
        squares[..., size] = _lengths(apart) ** 2
        along = np.empty_like(squares)
        along[..., :size] = _along(near, towards)[..., None]
        along[..., :size] -= _along(self._reference[None], towards)[:, None, :]
        along[..., size] = _along(apart, towards)
        along *= along
        along *= shrink[:, None, None]
        squares -= along
        np.maximum(squares, 0.0, out=squares)  # below 0 by rounding alone
        squares /= a * self._factor * self._factor
        nearest = squares.min(axis=2)
        squares -= nearest[..., None]
        squares *= -0.5
        np.exp(squares, out=squares)
        log_volume = (
            dimension * (0.5 * np.log(2.0 * np.pi * a) + np.log(self._factor))
            + self._whitening.log_volume
            + 0.5 * np.log1p(growth)
        )
        logs = np.log(row_sums(squares)) - 0.5 * nearest - np.log(size + 1.0)
        return np.asarray(logs - log_volume[:, None])

    def _reference_squares(self, indices: Indices) -> Array:
        if self._squares is not None:
            return self._squares[indices]
        flat = cdist(self._release[indices.ravel()], self._reference, "sqeuclidean")
        return flat.reshape(*indices.shape, len(self._reference))


def _lengths(vectors: Array) -> Array:
    """Return the length of each vector, coordinate by coordinate."""
    squares = np.zeros(vectors.shape[:-1])
    for k in range(vectors.shape[-1]):
        squares += vectors[..., k] * vectors[..., k]
    return np.sqrt(squares)


def _along(vectors: Array, directions: Array) -> Array:
    """Return the part of ``(n, k, d)`` vectors along ``(n, d)`` directions."""
    parts = np.zeros((len(directions), vectors.shape[1]))
    for k in range(vectors.shape[-1]):
        parts += vectors[..., k] * directions[:, k, None]
    return parts


@dataclass(frozen=True, slots=True)
class ShareInRadius:
    """The share of the release within the median distance of members to it."""

    radius: float
    neighbors: int = 0

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        points = view.ground.synthetic
        below, at = points.within(view.rows.array, np.full(len(view.rows), self.radius))
        return (below + at) / len(points.points)


@dataclass(frozen=True, slots=True)
class SyntheticAmongNearest:
    """The share of the release among the nearest rows of release and reference together.

    Rows at the same distance as the last of them count by their share.
    """

    count: int
    neighbors: int = 0

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        ground, rows = view.ground, view.rows.array
        count = min(self.count, len(ground.release) + len(ground.reference))
        last = np.empty(len(rows))
        # The distances of `within`, pair by pair: those of a tree may differ in the last digit.
        width = len(ground.release) + len(ground.reference)
        for block in blocks(len(rows), width):
            distances = np.concatenate(
                [
                    cdist(rows[block], ground.release.array, "euclidean"),
                    cdist(rows[block], ground.reference.array, "euclidean"),
                ],
                axis=1,
            )
            last[block] = np.partition(distances, count - 1, axis=1)[:, count - 1]
        synthetic, tied = ground.synthetic.within(rows, last)
        other, other_tied = ground.others.within(rows, last)
        left = count - synthetic - other  # of those at the last distance, at least 1
        return (synthetic + left * (tied / (tied + other_tied))) / count


class Classifier:
    """The share of synthetic rows that a random forest of the release against the reference says.

    Parameters
    ----------
    ground
        The release and the reference.
    """

    neighbors = 0

    def __init__(self, ground: Ground) -> None:
        from sklearn.ensemble import RandomForestClassifier

        points = np.concatenate([ground.release.array, ground.reference.array])
        synthetic = np.arange(len(points)) < len(ground.release)
        seed = int(ground.generator(FOREST).integers(0, 2**31))
        self._forest = RandomForestClassifier(
            n_estimators=TREES, min_samples_leaf=LEAF, class_weight="balanced", random_state=seed
        ).fit(points, synthetic)

    def score(self, view: View) -> Array:
        """Return a number for each row."""
        shares = self._forest.predict_proba(view.rows.array)
        return np.asarray(shares[:, 1], dtype=np.float64)
