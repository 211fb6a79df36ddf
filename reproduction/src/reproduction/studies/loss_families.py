"""Loss families of the labels-needed study: releases, and a long sequence of shared records.

An audit of size ``n`` reads the first ``n`` records of a sequence, so that sizes are compared on
common random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.betting import betting_pvalue
from proxyguard.exact.mean import (
    bentkus_pvalue,
    chernoff_pvalue,
    empirical_bernstein_pvalue,
    hoeffding_pvalue,
)
from reproduction.studies import mode_targets
from reproduction.studies.counts import Array, Integers, pvalue_table

R, ETA = 1000, 0.95
STEP, SMALLEST = 1.05, 100
BETTING_PART, BETTING_LEAST = 7, 30  # repetitions, where a column a distinct release is read
KEPT = 24  # sizes whose ranks are kept

Flags = NDArray[np.bool_]


class Drawn(Protocol):
    """Releases and a long sequence of records, of which a first part is read."""

    limits: tuple[float, ...]
    margin: float  # slacks are tuned as shares of it
    valid: Flags  # (reps, R)

    def excess(self, n: int) -> Array:
        """Return the largest of mean less limit over requirements, (reps, R)."""

    def pvalues(self, test: str, n: int, level: float) -> Array:
        """Return release p-values, (reps, R)."""


MEAN_TESTS: dict[str, Callable[[Array, int, float], Array]] = {
    "bentkus": bentkus_pvalue,
    "chernoff": chernoff_pvalue,
    "hoeffding": hoeffding_pvalue,
}
BERNSTEIN = "empirical Bernstein"
TESTS = (BERNSTEIN, *MEAN_TESTS, "randomized binomial", "betting")


@dataclass(kw_only=True)
class Columns:
    """All valid releases have one and the same loss on a record.

    An invalid one loses everything on a small share of the records, so that its mean lies at
    the limit, and agrees with the valid ones elsewhere.
    """

    limits: tuple[float, ...]
    margin: float
    valid: Flags
    losses: Array  # (reps, records)
    hard: Flags  # (reps, records)
    own: np.random.Generator
    _kept: dict[int, tuple[Array, Array]] = field(default_factory=dict)

    def _pair(self, n: int) -> tuple[Array, Array]:
        good = self.losses[:, :n]
        return good, np.where(self.hard[:, :n], 1.0, good)

    def moments(self, n: int) -> tuple[Array, Array]:
        """Return means and variances, (2, reps) each, of valid releases first."""
        if n not in self._kept:
            pair = self._pair(n)
            means = np.stack([u.mean(axis=1) for u in pair])
            self._kept[n] = means, np.stack([u.var(axis=1, ddof=1) for u in pair])
        return self._kept[n]

    def _spread(self, pair: Array) -> Array:
        return np.asarray(np.where(self.valid, pair[0][:, None], pair[1][:, None]))

    def excess(self, n: int) -> Array:
        """Return mean less limit, (reps, R)."""
        return np.asarray(self._spread(self.moments(n)[0]) - self.limits[0])

    def pvalues(self, test: str, n: int, level: float) -> Array:
        """Return release p-values, (reps, R)."""
        return self._spread(self._test(test, n, level))

    def _test(self, test: str, n: int, level: float) -> Array:
        (limit,) = self.limits
        if test == "betting":
            return np.stack([betting_pvalue(u, limit, level=level) for u in self._pair(n)])
        if test == "randomized binomial":
            counts = [np.count_nonzero(self._uniforms[:, :n] < u, axis=1) for u in self._pair(n)]
            return np.asarray(pvalue_table(n, limit)[np.stack(counts)])
        mean, variance = self.moments(n)
        if test == BERNSTEIN:
            return bernstein(mean, variance, n, limit)
        return MEAN_TESTS[test](np.clip(mean, 0.0, 1.0), n, limit)

    @cached_property
    def _uniforms(self) -> Array:
        return self.own.random(self.losses.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The first records of every repetition, in the order of their uniforms."""

    order: Integers  # (reps, n)
    ranks: Integers  # (reps, J, R): how many uniforms lie below a release's theta

    def window(self, j: int) -> tuple[Integers, Integers]:
        """Return every rank between the least and the largest, (reps, m), and the ranks' places."""
        ranks = self.ranks[:, j]
        least = ranks.min(axis=1, keepdims=True)
        places = ranks - least
        return np.minimum(least + np.arange(places.max() + 1), self.order.shape[1]), places


@dataclass(kw_only=True)
class Steps:
    """Losses ``(1 - c) 1{u_i < theta} + c w_ij``: releases with equal ranks have equal losses.

    So each test is a table over ranks.
    """

    limits: tuple[float, ...]
    margin: float
    valid: Flags
    thetas: Array  # (reps, R, J)
    uniforms: Array  # (reps, records)
    smooth: float  # c
    noise: Array  # (reps, J, records)
    own: np.random.Generator
    _prefixes: dict[int, Prefix] = field(default_factory=dict)

    def prefix(self, n: int) -> Prefix:
        """Return the first records; a few sizes are kept, since many tests read the same."""
        if n not in self._prefixes:
            if len(self._prefixes) == KEPT:
                del self._prefixes[next(iter(self._prefixes))]
            self._prefixes[n] = self._prefix(n)
        return self._prefixes[n]

    @cached_property
    def _order(self) -> Integers:
        return np.argsort(self.uniforms, axis=1).astype(np.int32)

    @cached_property
    def _ranks(self) -> Integers:
        """The ranks among all records, (reps, J * R)."""
        ordered = np.take_along_axis(self.uniforms, self._order, axis=1)
        found = [
            np.searchsorted(u, theta.T.ravel())
            for u, theta in zip(ordered, self.thetas, strict=True)
        ]
        return np.stack(found)

    def _prefix(self, n: int) -> Prefix:
        reps, releases, requirements = self.thetas.shape
        first = self._order < n
        below = _running(first)
        ranks = np.take_along_axis(below, self._ranks, axis=1)
        return Prefix(
            order=self._order[first].reshape(reps, n),
            ranks=ranks.reshape(reps, requirements, releases),
        )

    def excess(self, n: int) -> Array:
        """Return the largest of mean less limit over requirements, (reps, R)."""
        c = self.smooth
        mean = (1 - c) * self.prefix(n).ranks / n
        mean += c * self.noise[..., :n].mean(axis=2, keepdims=True)
        mean -= np.array(self.limits)[:, None]
        return np.asarray(mean.max(axis=1))

    def pvalues(self, test: str, n: int, level: float) -> Array:
        """Return release p-values, (reps, R), or of the first repetitions if they cost much."""
        if test == "betting":
            drawn = len(self.thetas)
            reps = min(drawn, max(BETTING_LEAST, drawn // BETTING_PART))
            return np.stack([self._bet(one, n, level) for one in range(reps)])
        found = np.zeros(self.valid.shape)
        for j in range(len(self.limits)):
            window, places = self.prefix(n).window(j)
            table = self._table(test, n, j, window)
            np.maximum(found, np.take_along_axis(table, places, axis=1), out=found)
        return found

    def _table(self, test: str, n: int, j: int, ranks: Integers) -> Array:
        """Return the p-value of requirement ``j`` at ranks (reps, m)."""
        c, limit, order = self.smooth, self.limits[j], self.prefix(n).order
        if test == "randomized binomial":
            always, depends = self._indicators
            counts = _inside(depends[:, j], order, ranks)
            counts += np.count_nonzero(always[:, j, :n], axis=1)[:, None]
            return np.asarray(pvalue_table(n, limit)[counts])
        w = self.noise[:, j, :n]
        mean = ((1 - c) * ranks + c * w.sum(axis=1, keepdims=True)) / n
        if test != BERNSTEIN:
            return MEAN_TESTS[test](np.clip(mean, 0.0, 1.0), n, limit)
        squares = (1 - c) ** 2 * ranks + c * c * np.einsum("rn,rn->r", w, w)[:, None]
        squares += 2 * c * (1 - c) * _inside(w, order, ranks)
        return bernstein(mean, np.maximum(0.0, squares - n * mean**2) / (n - 1), n, limit)

    @cached_property
    def _indicators(self) -> tuple[Flags, Flags]:
        """Which records always count for the randomized test, and which when ``u < theta``."""
        coins = self.own.random(self.noise.shape)
        coins -= self.smooth * self.noise
        always = coins < 0.0
        return always, ~always & (coins < 1 - self.smooth)

    def _bet(self, one: int, n: int, level: float) -> Array:
        """Return the betting p-values of one repetition, a column for each distinct rank."""
        order, c = self.prefix(n).order[one], self.smooth
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        found = np.zeros(self.valid.shape[1])
        for j, limit in enumerate(self.limits):
            ranks, back = np.unique(self.prefix(n).ranks[one, j], return_inverse=True)
            losses = (1 - c) * (place[None, :] < ranks[:, None]) + c * self.noise[one, j, :n]
            found = np.maximum(found, betting_pvalue(losses, limit, level=level)[back])
        return found


def bernstein(mean: Array, variance: Array, n: int, limit: float) -> Array:
    """Return the empirical Bernstein p-values of means that rounding may put outside [0, 1]."""
    return empirical_bernstein_pvalue(np.clip(mean, 0.0, 1.0), variance, n, limit)


def _inside(values: NDArray[Any], order: Integers, ranks: Integers) -> NDArray[Any]:
    """Return the sum of the first ``ranks`` values in an order, row by row."""
    running = _running(np.take_along_axis(values, order, axis=1))
    return np.take_along_axis(running, ranks, axis=1)


def _running(values: NDArray[Any]) -> NDArray[Any]:
    """Return running sums along rows, from 0 for none; flags are counted."""
    kind = np.int32 if values.dtype == np.bool_ else np.float64
    found = np.zeros((len(values), values.shape[1] + 1), dtype=kind)
    np.cumsum(values, axis=1, out=found[:, 1:])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One loss family: how it is drawn, and the largest size that is tried."""

    draw: Callable[[np.random.Generator, int, int], Drawn]
    largest: int

    def sizes(self) -> list[int]:
        """Return the sizes that are tried, in steps of 5 %."""
        steps = int(np.log(self.largest / SMALLEST) / np.log(STEP))
        return [round(SMALLEST * STEP**i) for i in range(steps + 1)]


def primary(rng: np.random.Generator, reps: int, records: int) -> Steps:
    """Draw the primary study's smoothed Bernoulli losses (B12, moderate evidence)."""
    releases = mode_targets.draw_releases(rng, mode_targets.MODERATE, (reps, R), ETA)
    means = np.array(mode_targets.LIMITS) - np.moveaxis(releases.margins, 0, -1)
    return Steps(
        limits=mode_targets.LIMITS,
        margin=mode_targets.MODERATE.margin[0] + mode_targets.MODERATE.jitter,
        valid=releases.valid,
        thetas=(means - mode_targets.SMOOTH / 2) / (1 - mode_targets.SMOOTH),
        uniforms=rng.random((reps, records)),
        smooth=mode_targets.SMOOTH,
        noise=rng.random((reps, len(mode_targets.LIMITS), records)),
        own=rng.spawn(1)[0],
    )


VALID_RISKS, INVALID_RISKS, BERNOULLI_LIMIT = (0.055, 0.065), (0.105, 0.115), 0.10
BERNOULLI_MARGIN = BERNOULLI_LIMIT - VALID_RISKS[0]


def bernoulli(rng: np.random.Generator, reps: int, records: int) -> Steps:
    """Draw losses ``1{u_i < risk_r}``, valid risks around .06 and invalid ones above .10."""
    valid = rng.random((reps, R)) < ETA
    risk = np.where(
        valid, rng.uniform(*VALID_RISKS, (reps, R)), rng.uniform(*INVALID_RISKS, (reps, R))
    )
    return Steps(
        limits=(BERNOULLI_LIMIT,),
        margin=BERNOULLI_MARGIN,
        valid=valid,
        thetas=risk[..., None],
        uniforms=rng.random((reps, records)),
        smooth=0.0,
        noise=np.zeros((reps, 1, records)),
        own=rng.spawn(1)[0],
    )


def brier(rng: np.random.Generator, reps: int, records: int) -> Columns:
    """Draw Brier-like losses, Beta(.4, 2.6) against .16."""
    return _columns(rng, rng.beta(0.4, 2.6, (reps, records)), mean=0.4 / 3, limit=0.16)


def regret(rng: np.random.Generator, reps: int, records: int) -> Columns:
    """Draw relative regrets, normal with mean .01 and sd .12 in [-1, 1], against .04."""
    losses = (np.clip(rng.normal(0.01, 0.12, (reps, records)), -1.0, 1.0) + 1.0) / 2.0
    return _columns(rng, losses, mean=0.505, limit=0.52)


def _columns(rng: np.random.Generator, losses: Array, *, mean: float, limit: float) -> Columns:
    return Columns(
        limits=(limit,),
        margin=limit - mean,
        valid=rng.random((len(losses), R)) < ETA,
        losses=losses,
        hard=rng.random(losses.shape) < (limit - mean) / (1.0 - mean),
        own=rng.spawn(1)[0],
    )


PRIMARY, BERNOULLI = "smoothed Bernoulli, three requirements", "Bernoulli .06 against .10"
FAMILIES = {
    PRIMARY: Family(draw=primary, largest=4000),
    BERNOULLI: Family(draw=bernoulli, largest=6000),
    "Beta(.4, 2.6) against .16": Family(draw=brier, largest=10_000),
    "normal regret .01 against .04": Family(draw=regret, largest=32_000),
}
