"""B12: releases with three requirements on one shared target, in two models of their losses.

Losses are functions of a few shared noises, so whether a release passes a test follows from
sums over the target: ranks among the sorted uniforms in the moderate model, a handful of
moments in the high-signal one. No array of releases x records is made, except for betting,
which reads every loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.betting import betting_pvalue
from proxyguard.exact.mean import log_chernoff
from reproduction.studies.counts import Array, pvalue_table
from reproduction.studies.passing import Counts, bentkus_cutoffs, count_true

LIMITS = (0.55, 0.35, 0.40)  # on the unit scale
SMOOTH = 0.02  # continuous share of the moderate loss
COMMON, OTHER = 0.08, 0.04  # scales of the high-signal noises


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The registered parameters of one comparison."""

    margin: tuple[float, float]
    jitter: float
    release_share: float  # phi
    target_share: float  # f
    slack: float


MODERATE = Design(
    margin=(0.065, 0.09), jitter=0.005, release_share=0.9, target_share=0.9, slack=0.055
)
HIGH_SIGNAL = Design(
    margin=(0.07, 0.10), jitter=0.008, release_share=0.1, target_share=0.5, slack=0.06
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """A block of mechanisms: what separates each true mean from its limit, and validity."""

    margins: Array  # (3, reps, R), on the unit scale
    valid: NDArray[np.bool_]  # (reps, R)

    @property
    def shape(self) -> tuple[int, int]:
        """Repetitions and releases."""
        return self.margins.shape[1], self.margins.shape[2]


def draw_releases(
    rng: np.random.Generator, design: Design, shape: tuple[int, int], eta: float
) -> Releases:
    """Draw the margins of every release; an invalid one fails one requirement.

    The registered floor of 1e-6 is left out: no margin of a valid release is below .06.
    """
    valid = rng.random(shape) < eta
    margins = rng.uniform(-design.jitter, design.jitter, (3, *shape))
    margins += rng.uniform(*design.margin, shape)
    invalid = np.flatnonzero(~valid)
    failed = rng.integers(0, 3, invalid.size)
    margins.reshape(3, -1)[failed, invalid] = -rng.uniform(0.001, 0.05, invalid.size)
    return Releases(margins=margins, valid=valid)


class Target(Protocol):
    """One shared target a repetition, and how many releases pass each test on it."""

    n: int
    releases: Releases
    randomized_rows: int  # repetitions on which `randomized` is evaluated, the first ones
    betting_rows: int

    def slack(self, slack: float) -> Counts:
        """Return how many releases have every mean at most its limit less the slack."""

    def bernstein(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass empirical Bernstein."""

    def bentkus(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Bentkus."""

    def chernoff(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Chernoff."""

    def hoeffding(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Hoeffding."""

    def violating(self, level: float) -> Counts:
        """Return how many releases violate some requirement by Bentkus at the level."""

    def randomized(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass the randomized binomial test."""

    def betting(self, level: float) -> Array:
        """Return betting p-values (betting_rows, R), tuned to the level of the decision."""

    def losses(self, row: int) -> Array:
        """Return every loss of one repetition, (R, n, 3), its records in a random order."""


Model = Callable[[np.random.Generator, Releases, int], Target]


def _clearing(values: Array | Counts, rows: Counts, least: Array | Counts) -> Counts:
    """Return how many releases have all three values (3, reps, R) at least ``least`` (rows, 3)."""
    chosen = values if rows.size == values.shape[1] else values[:, rows]
    passes = chosen[0] >= least[:, 0, None]
    for j in (1, 2):
        passes &= chosen[j] >= least[:, j, None]
    return count_true(passes)


def _falling_short(values: Array, most: Array) -> Counts:
    """Return how many releases have some value (3, reps, R) below ``most`` (reps, 3)."""
    fails = values[0] < most[:, 0, None]
    for j in (1, 2):
        fails |= values[j] < most[:, j, None]
    return count_true(fails)


def _roots(gap: Array, variance: Array, n: int) -> Array:
    """Return ``x`` with empirical Bernstein p-value ``2 exp(-x^2)``, 0 where the gap is 0."""
    width = 7.0 / (3.0 * (n - 1.0))
    square = variance * (2.0 / n)
    below = np.sqrt(square)
    below += np.sqrt(square + (4.0 * width) * gap)
    return np.divide(2.0 * gap, below, out=np.zeros_like(gap), where=gap > 0.0)


def _root_cutoffs(levels: Array) -> Array:
    """Return the root at which the empirical Bernstein p-value is the level."""
    return np.sqrt(np.log(2.0 / levels))


def _bentkus_means(n: int, levels: Array) -> Array:
    """Return the largest means that pass Bentkus, (rows, 3)."""
    return np.stack([bentkus_cutoffs(n, limit, levels) for limit in LIMITS], axis=1)


def _hoeffding_means(n: int, levels: Array) -> Array:
    """Return the largest means that pass Hoeffding, (rows, 3)."""
    return np.array(LIMITS) - np.sqrt(-np.log(levels) / (2.0 * n))[:, None]


def _violating_means(n: int, level: float) -> Array:
    """Return the least means that violate by Bentkus, which reads the losses mirrored."""
    levels = np.array([level])
    return np.array([1.0 - bentkus_cutoffs(n, 1.0 - limit, levels)[0] for limit in LIMITS])


def _chernoff_evidence(means: Array, n: int, limits: Array) -> Array:
    """Return ``-log p`` of Chernoff, 0 where the mean is not below its limit."""
    return -log_chernoff(np.minimum(means, limits), n, limits)


def _count_cutoffs(n: int, levels: Array) -> Counts:
    """Return the largest counts that pass the exact binomial test, (rows, 3)."""
    found = [np.searchsorted(pvalue_table(n, v), levels, side="right") - 1 for v in LIMITS]
    return np.stack(found, axis=1)


class SmoothedTarget:
    """The moderate model: loss ``(1 - c) 1{u_i < t} + c w_ij`` for a release's threshold ``t``.

    A release's mean, variance and randomized count are functions of its rank, the number of
    uniforms below its threshold, so a test allows ranks up to some largest one, which is a
    condition on the margin. Records are kept sorted by ``u``: ``w`` is independent of it.
    """

    def __init__(self, rng: np.random.Generator, releases: Releases, n: int) -> None:
        reps = releases.shape[0]
        self.n, self.releases = n, releases
        self.randomized_rows, self.betting_rows = reps, -(-reps // 5)
        # Spawned before use, so that no method's numbers depend on which others are evaluated.
        self._chances, self._order = rng.spawn(2)
        self._u = np.sort(rng.random((reps, n)), axis=1)
        self._w = rng.random((reps, 3, n))
        self._total_w = self._w.sum(axis=-1)

    def losses(self, row: int) -> Array:
        """Return every loss of one repetition, (R, n, 3), its records in a random order."""
        margins = self.releases.margins[:, row]
        thresholds = (np.array(LIMITS)[:, None] - margins - SMOOTH / 2) / (1 - SMOOTH)
        ranks = np.searchsorted(self._u[row], thresholds)
        losses = (1 - SMOOTH) * (np.arange(self.n) < ranks[..., None]) + (
            SMOOTH * self._w[row][:, None]
        )
        if row < self.betting_rows:  # the others are read by tests that ask for no order
            losses = losses[..., self._orders[row]]
        return np.moveaxis(losses, 0, -1)

    def _up_to(self, ranks: Counts, rows: Counts) -> Counts:
        """Return how many releases have all three ranks at most ``ranks`` (rows, 3)."""
        # At most k uniforms lie below t exactly when t is at most the one after k.
        edge = self._u[rows[:, None], np.clip(ranks, 0, self.n - 1)]
        least = np.array(LIMITS) - SMOOTH / 2 - (1 - SMOOTH) * edge
        least = np.where(ranks < 0, np.inf, np.where(ranks >= self.n, -np.inf, least))
        return _clearing(self.releases.margins, rows, least)

    def _largest_ranks(self, means: Array, rows: Counts) -> Counts:
        """Return the largest rank whose sample mean is at most ``means`` (rows, 3)."""
        ranks = (self.n * means - SMOOTH * self._total_w[rows]) / (1 - SMOOTH)
        return np.asarray(np.floor(ranks), dtype=np.int64)

    def slack(self, slack: float) -> Counts:
        """Return how many releases have every mean at most its limit less the slack."""
        rows = np.arange(self.releases.shape[0])
        means = np.broadcast_to(np.array(LIMITS) - slack, (rows.size, 3))
        return self._up_to(self._largest_ranks(means, rows), rows)

    def bentkus(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Bentkus."""
        return self._up_to(self._largest_ranks(_bentkus_means(self.n, levels), rows), rows)

    def hoeffding(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Hoeffding."""
        return self._up_to(self._largest_ranks(_hoeffding_means(self.n, levels), rows), rows)

    def violating(self, level: float) -> Counts:
        """Return how many releases violate some requirement by Bentkus at the level."""
        least = self.n * _violating_means(self.n, level) - SMOOTH * self._total_w
        ranks = np.asarray(np.ceil(least / (1 - SMOOTH)), dtype=np.int64)
        # A rank of k or more means that the k-th smallest uniform lies below the threshold.
        rows = np.arange(len(ranks))[:, None]
        edge = self._u[rows, np.clip(ranks - 1, 0, self.n - 1)]
        most = np.array(LIMITS) - SMOOTH / 2 - (1 - SMOOTH) * edge
        most = np.where(ranks <= 0, np.inf, np.where(ranks > self.n, -np.inf, most))
        return _falling_short(self.releases.margins, most)

    @cached_property
    def _window(self) -> tuple[Counts, Counts, Array]:
        """The least rank of any release, (reps, 3), the ranks from there on, and their means."""
        reps, n, c = self.releases.shape[0], self.n, SMOOTH
        rows = np.arange(reps)
        least_mean = np.array(LIMITS) - self.releases.margins.max(axis=(1, 2))
        edges = (least_mean - c / 2) / (1 - c)
        first = np.stack([(self._u < edge).sum(axis=1) for edge in edges], axis=1)
        # Beyond this rank the mean is above its limit and the p-value is 1.
        last = self._largest_ranks(np.broadcast_to(np.array(LIMITS), (reps, 3)), rows)
        width = int(max(1, (last - first).max() + 1))
        rank = np.minimum(first[..., None] + np.arange(width), n)
        mean = ((1 - c) * rank + c * self._total_w[..., None]) / n
        return first, rank, mean

    @cached_property
    def _bernstein_roots(self) -> Array:
        """The roots of the ranks in the window, (reps, 3, m).

        The upper limit of empirical Bernstein rises with the rank: the mean gains (1 - c)/n a
        step and the spread loses less. So the ranks that pass are the first ones.
        """
        n, c = self.n, SMOOTH
        _, rank, mean = self._window
        below = np.zeros((*self._total_w.shape, int(rank.max()) + 1))
        np.cumsum(self._w[..., : below.shape[-1] - 1], axis=-1, out=below[..., 1:])
        inside = np.take_along_axis(below, rank, axis=-1)  # sum of w where the indicator is 1
        squares = c * c * np.einsum("rjn,rjn->rj", self._w, self._w)[..., None]
        squares = squares + (1 - c) ** 2 * rank + 2 * c * (1 - c) * inside
        variance = (squares - n * mean**2) / (n - 1)
        gap = np.maximum(np.array(LIMITS)[:, None] - mean, 0.0)
        return _roots(gap, variance, n)

    @cached_property
    def _chernoff(self) -> Array:
        """Chernoff's ``-log p`` of the ranks in the window, (reps, 3, m)."""
        return _chernoff_evidence(self._window[2], self.n, np.array(LIMITS)[:, None])

    def _first_ranks(self, passes: NDArray[np.bool_], rows: Counts) -> Counts:
        """Return how many releases have only ranks that pass, the first ones of the window."""
        return self._up_to(self._window[0][rows] + count_true(passes) - 1, rows)

    def bernstein(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass empirical Bernstein."""
        passes = self._bernstein_roots[rows] >= _root_cutoffs(levels)[:, None, None]
        return self._first_ranks(passes, rows)

    def chernoff(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Chernoff."""
        return self._first_ranks(self._chernoff[rows] >= -np.log(levels)[:, None, None], rows)

    @cached_property
    def _indicators(self) -> tuple[Counts, Counts, Counts]:
        """Counts of records always counted; places of those that depend on the rank.

        The indicator of a uniform below the loss is 1 for ``U < c w``, 0 for ``U >= 1 - c + c
        w``, and between them ``1{u < t}``. Places are flat, with the first one of each row.
        """
        chance = self._chances.random(self._w.shape)
        chance -= SMOOTH * self._w
        always = count_true(chance < 0.0)
        depends = (chance >= 0.0) & (chance < 1 - SMOOTH)
        places = np.flatnonzero(depends)
        starts = np.searchsorted(places, np.arange(always.size) * self.n)
        return always, places, starts.reshape(always.shape)

    def randomized(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass the randomized binomial test."""
        always, places, starts = self._indicators
        spare = _count_cutoffs(self.n, levels) - always[rows]
        # The largest rank is the place of the first record that would be one too many.
        row = rows[:, None] * 3 + np.arange(3)
        place = starts[rows] + np.maximum(spare, 0)
        found = np.append(places, np.iinfo(np.int64).max)[np.minimum(place, places.size)]
        ranks = np.where(spare < 0, -1, np.clip(found - row * self.n, 0, self.n))
        return self._up_to(ranks, rows)

    @cached_property
    def _orders(self) -> list[Counts]:
        """A random order of the records for each repetition that betting reads."""
        return [self._order.permutation(self.n) for _ in range(self.betting_rows)]

    def betting(self, level: float) -> Array:
        """Return betting p-values (betting_rows, R), tuned to the level of the decision."""
        return np.stack([self._bet(row, level) for row in range(self.betting_rows)])

    def _bet(self, row: int, level: float) -> Array:
        """Return the p-values of one repetition; releases of one rank share all losses."""
        worst = np.zeros(self.releases.shape[1])
        for j, limit in enumerate(LIMITS):
            threshold = (limit - self.releases.margins[j, row] - SMOOTH / 2) / (1 - SMOOTH)
            ranks, which = np.unique(np.searchsorted(self._u[row], threshold), return_inverse=True)
            indicators = np.arange(self.n) < ranks[:, None]
            losses = (1 - SMOOTH) * indicators + SMOOTH * self._w[row, j]
            pvalues = betting_pvalue(losses[:, self._orders[row]], limit, level=level)
            worst = np.maximum(worst, pvalues[which])
        return worst


class FixedScaleTarget:
    """The high-signal model: loss ``mean + .08 shared_i + .08 noise_ij + .04 coef interaction_ij``.

    Sample means and variances are polynomials in a release's coefficient, with moments of the
    shared noises as their coefficients.
    """

    COUNT_TILE, BET_TILE = 32, 64  # releases at once: what stays in the cache

    def __init__(self, rng: np.random.Generator, releases: Releases, n: int) -> None:
        reps = releases.shape[0]
        self.n, self.releases = n, releases
        self.randomized_rows = self.betting_rows = -(-reps // 5)
        self._chances = rng.spawn(1)[0]
        shared = rng.random((reps, 1, n))
        self._common = rng.random((reps, 3, n))
        self._common += shared  # uniforms on [0, 1) here; scaled where they are used
        self._other = rng.random((reps, 3, n))
        self._coefficients = rng.uniform(-1.0, 1.0, releases.margins.shape)
        self._means = (self._common.mean(axis=-1), self._other.mean(axis=-1))
        offset = 2 * COMMON * (self._means[0] - 1.0)
        slope = 2 * OTHER * (self._means[1] - 0.5)
        self._gaps = self._coefficients * -slope.T[..., None]
        self._gaps += releases.margins
        self._gaps -= offset.T[..., None]  # limits less sample means, (3, reps, R)

    def slack(self, slack: float) -> Counts:
        """Return how many releases have every mean at most its limit less the slack."""
        rows = np.arange(self.releases.shape[0])
        return _clearing(self._gaps, rows, np.full((rows.size, 3), slack))

    def bentkus(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Bentkus."""
        return _clearing(self._gaps, rows, np.array(LIMITS) - _bentkus_means(self.n, levels))

    def hoeffding(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Hoeffding."""
        return _clearing(self._gaps, rows, np.array(LIMITS) - _hoeffding_means(self.n, levels))

    def violating(self, level: float) -> Counts:
        """Return how many releases violate some requirement by Bentkus at the level."""
        most = np.array(LIMITS) - _violating_means(self.n, level)
        # At the cutoff itself a release violates, which has probability 0 here.
        return _falling_short(self._gaps, np.tile(most, (self.releases.shape[0], 1)))

    def losses(self, row: int) -> Array:
        """Return every loss of one repetition, (R, n, 3), its records in a random order."""
        common = np.array(LIMITS)[:, None] + 2 * COMMON * (self._common[row] - 1.0)
        losses = (
            self._coefficients[:, row, :, None] * (2 * OTHER * (self._other[row] - 0.5))[:, None]
        )
        losses += common[:, None]
        losses -= self.releases.margins[:, row, :, None]
        return np.moveaxis(losses, 0, -1)

    @cached_property
    def _least_chernoff(self) -> Array:
        """Chernoff's ``-log p``, the smallest over the requirements, (reps, R)."""
        limits = np.array(LIMITS)[:, None, None]
        return np.asarray(_chernoff_evidence(limits - self._gaps, self.n, limits).min(axis=0))

    def chernoff(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass Chernoff."""
        return count_true(self._least_chernoff[rows] >= -np.log(levels)[:, None])

    @cached_property
    def _least_roots(self) -> Array:
        """The smallest root over the requirements, (reps, R)."""
        scales = (2 * COMMON, 2 * OTHER)
        noises = (self._common, self._other)

        def moment(a: int, b: int) -> Array:
            products = np.einsum("rjn,rjn->rj", noises[a], noises[b])
            centred = products - self.n * self._means[a] * self._means[b]
            return np.asarray(scales[a] * scales[b] / (self.n - 1) * centred.T[..., None])

        constant, linear, square = moment(0, 0), 2 * moment(0, 1), moment(1, 1)
        least = np.full(self.releases.shape, np.inf)
        for j in range(3):
            coefficient = self._coefficients[j]
            variance = square[j] * coefficient
            variance += linear[j]
            variance *= coefficient
            variance += constant[j]
            gap = np.maximum(self._gaps[j], 0.0)
            np.minimum(least, _roots(gap, variance, self.n), out=least)
        return least

    def bernstein(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass empirical Bernstein."""
        return count_true(self._least_roots[rows] >= _root_cutoffs(levels)[:, None])

    @cached_property
    def _randomized_counts(self) -> Counts:
        """Negated randomized counts of the first repetitions, (3, rows, R)."""
        rows = self.randomized_rows
        chances = self._chances.random((rows, 3, self.n))
        counts = np.empty((3, rows, self.releases.shape[1]), dtype=np.int64)
        for row in range(rows):
            for j in range(3):
                counts[j, row] = -self._count_below(chances[row, j], row, j)
        return counts

    def _count_below(self, chances: Array, row: int, j: int) -> Counts:
        """Return for each release how many records have their uniform below the loss.

        The interaction moves a loss by at most ``OTHER``, so only records that close to the
        release's mean have to be looked at, for a tile of releases of similar means at once.
        """
        values = chances - 2 * COMMON * (self._common[row, j] - 1.0)
        order = np.argsort(values)
        values, tilt = values[order], 2 * OTHER * (self._other[row, j][order] - 0.5)
        means = LIMITS[j] - self.releases.margins[j, row]
        counts = np.empty(means.size, dtype=np.int64)
        by_mean = np.argsort(means)
        for start in range(0, means.size, self.COUNT_TILE):
            tile = by_mean[start : start + self.COUNT_TILE]
            low, high = np.searchsorted(values, (means[tile[0]] - OTHER, means[tile[-1]] + OTHER))
            moved = self._coefficients[j, row][tile, None] * tilt[low:high]
            moved += means[tile, None]
            counts[tile] = low + count_true(values[low:high] < moved)
        return counts

    def randomized(self, levels: Array, rows: Counts) -> Counts:
        """Return how many releases pass the randomized binomial test."""
        return _clearing(self._randomized_counts, rows, -_count_cutoffs(self.n, levels))

    def betting(self, level: float) -> Array:
        """Return betting p-values (betting_rows, R), tuned to the level of the decision."""
        return np.stack([self._bet(row, level) for row in range(self.betting_rows)])

    def _bet(self, row: int, level: float) -> Array:
        """Return the p-values of one repetition, a tile of releases at a time."""
        releases = self.releases.shape[1]
        worst = np.zeros(releases)
        for j, limit in enumerate(LIMITS):
            common = limit + 2 * COMMON * (self._common[row, j] - 1.0)
            other = 2 * OTHER * (self._other[row, j] - 0.5)
            for start in range(0, releases, self.BET_TILE):
                tile = slice(start, start + self.BET_TILE)
                losses = self._coefficients[j, row, tile, None] * other
                losses += common
                losses -= self.releases.margins[j, row, tile, None]
                pvalues = betting_pvalue(losses, limit, level=level)
                worst[tile] = np.maximum(worst[tile], pvalues)
        return worst
