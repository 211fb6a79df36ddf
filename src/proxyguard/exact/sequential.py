"""Looking at the scores as they come: confidence sequences and boundaries (theory section 5).

Given the opened target, scores of successive draws are iid Bernoulli. `bernoulli_lower`
holds at every number of draws at once. A registered boundary is crossed with a
probability that an exact count of paths gives for every score rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.exact import checks
from proxyguard.exact.rounding import GUARD, Array, bracket_switch, weaken_lower, weaken_pvalue
from proxyguard.exact.sharp import critical_count
from proxyguard.exact.special import special


def bernoulli_lower(count: ArrayLike, trials: ArrayLike, *, alpha: float) -> Array:
    """Return a lower limit of a Bernoulli rate that holds at all sample sizes at once.

    The least rate ``p`` at which the mixture ``M(p)`` of likelihood ratios, a uniform
    prior on rates above ``p`` against ``p``, stays below ``1/alpha``.

    Guarantee
    ---------
    With probability at least ``1 - alpha`` the limit never exceeds the true rate, over
    the whole infinite sequence: ``M`` is a nonnegative supermartingale from 1 when the
    rate is at most ``p`` (Robbins 1970; Ville).

    Notes
    -----
    ``M`` decreases in ``p`` up to ``S/(n + 1)``, where the search stops; beyond it the
    limit could only be larger.
    """
    checks.level(alpha)
    s, n = np.broadcast_arrays(*checks.counts(count, trials))
    some = np.maximum(s, 1.0)
    log_whole = special.betaln(1.0 + some, 1.0 + n - some)
    # betaln subtracts log factorials of size n log n.
    error = GUARD + 4.0 * np.finfo(np.float64).eps * n * np.log(n + 1.0)

    def below(p: Array) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore"):
            log_m = (
                log_whole
                + np.log(special.betaincc(1.0 + some, 1.0 + n - some, p))
                - np.log1p(-p)
                - some * np.log(p)
                - (n - some) * np.log1p(-p)
            )
        return np.asarray(log_m < -np.log(alpha) + error)

    last, _ = bracket_switch(below, np.zeros(s.shape), some / (n + 1.0))
    return np.where(s > 0, weaken_lower(last), 0.0)


@dataclass(frozen=True, slots=True)
class Boundary:
    """Favorable counts that validate at each registered look."""

    looks: NDArray[np.int64]  # numbers of draws, increasing
    counts: NDArray[np.int64]  # least favorable count at each look; looks + 1 if none
    level: float  # the common level a behind the counts
    size: float  # chance of a crossing at the worst law, at most alpha

    def crossed(self, favorable: ArrayLike) -> NDArray[np.bool_]:
        """Return at which looks these cumulative counts lie on or above the boundary."""
        reached = np.asarray(favorable)
        return np.asarray(reached >= self.counts[: reached.size])


def crossing_paths(
    looks: Sequence[int] | NDArray[np.int64], counts: Sequence[int] | NDArray[np.int64]
) -> tuple[Array, Array, Array]:
    """Return ``(log paths, successes, failures)`` of every way to first cross at a look.

    The number of score sequences depends on the boundary alone, so one count serves all
    score rates.
    """
    looks, counts = np.asarray(looks, dtype=np.int64), np.asarray(counts, dtype=np.int64)
    if looks.size == 0 or looks.shape != counts.shape or np.any(np.diff(looks, prepend=0) < 1):
        raise ValueError(
            f"looks must be increasing numbers of draws, one count for each, got {looks}, {counts}"
        )
    alive = np.zeros(1)  # log number of paths with s successes that have not crossed
    found: list[tuple[Array, Array, Array]] = []
    drawn = 0
    for look, count in zip(looks, counts, strict=True):
        for _ in range(int(look) - drawn):
            step = np.full(alive.size + 1, -np.inf)
            step[:-1] = alive
            step[1:] = np.logaddexp(step[1:], alive)
            alive = step
        drawn = int(look)
        successes = np.arange(alive.size)
        cross = (successes >= count) & (alive > -np.inf)
        found.append((alive[cross], successes[cross], drawn - successes[cross]))
        alive = alive[: max(1, min(alive.size, int(count)))]
        if count <= 0:
            alive = np.full(1, -np.inf)
    paths, wins, losses = (
        np.concatenate(part).astype(np.float64) for part in zip(*found, strict=True)
    )
    return paths, wins, losses


def crossing_probability(paths: tuple[Array, Array, Array], rate: ArrayLike) -> Array:
    """Return the chance of crossing the boundary behind `crossing_paths` at each score rate."""
    log_paths, wins, losses = paths
    rate = np.atleast_1d(np.asarray(rate, dtype=np.float64))
    if log_paths.size == 0:
        return np.zeros(rate.size)
    exponent = special.xlogy(wins, rate[:, None]) + special.xlog1py(losses, -rate[:, None])
    with np.errstate(under="ignore"):
        return np.asarray(np.minimum(1.0, np.exp(log_paths + exponent).sum(axis=1)))


def worst_size(
    paths: tuple[Array, Array, Array], *, target: float, kappa: float, points: int = 400
) -> float:
    """Return an upper bound of the crossing chance when ``eta <= target`` and ``E B <= kappa``.

    The chance rises with ``b``; on the points ``(b_i, g(b_{i+1}))`` the concave hull lies
    above the least concave majorant of ``g``, at every ``b``.
    """
    # Denser near 0, where kappa lies and the hull bends.
    b = np.unique(np.concatenate([[kappa], np.linspace(0.0, 1.0, points + 1) ** 2]))
    g = crossing_probability(paths, 1.0 - (1.0 - target) * (1.0 - b))
    g = np.maximum.accumulate(g)
    return float(weaken_pvalue(hull_at(b, np.append(g[1:], g[-1]), kappa)))


def hull_at(x: Array, y: Array, at: float) -> float:
    """Return the upper concave hull of points with increasing ``x``, evaluated at ``at``."""
    left, right = x <= at, x >= at
    rise = (y[right][None, :] - y[left][:, None]) * (at - x[left])[:, None]
    run = x[right][None, :] - x[left][:, None]
    chords = y[left][:, None] + np.divide(rise, run, out=np.zeros_like(rise), where=run > 0.0)
    return float(chords.max())


def sharp_boundary(
    looks: Sequence[int], *, target: float, kappa: float, alpha: float, steps: int = 12
) -> Boundary | None:
    """Return the boundary of critical counts at the largest common level with size ``alpha``.

    At each look the count is the least one that `sharp_pvalue` would accept at level
    ``a``; ``a`` is the largest level (on a bisection of ``steps``) whose worst crossing
    chance stays within ``alpha``. ``None`` if no look can ever cross.

    Guarantee
    ---------
    Theory section 5: a mechanism with reliability at most ``target`` crosses at any look
    with probability at most ``alpha``, whatever the shared target did.
    """
    checks.level(alpha)
    grid = np.asarray(looks, dtype=np.int64)
    best: Boundary | None = None
    low, high = min(kappa, alpha), alpha  # no count passes at a level of kappa or less
    for _ in range(steps):
        level = 0.5 * (low + high)
        counts = critical_count(grid, target=target, kappa=kappa, alpha=level)
        size = worst_size(crossing_paths(grid, counts), target=target, kappa=kappa)
        if size > alpha:
            high = level
            continue
        low = level
        if np.any(counts <= grid):
            best = Boundary(grid, counts, level, size)
    return best


@dataclass(frozen=True, slots=True)
class Stopping:
    """When an audit with a registered boundary stops, for each score rate."""

    looks: NDArray[np.int64]
    crossing: Array  # (rates, looks): chance of validating at each look
    futile: Array  # (rates, looks): chance of stopping there because no later look can cross

    @property
    def validation(self) -> Array:
        """The chance of ever crossing, for each rate."""
        return np.asarray(self.crossing.sum(axis=1))

    @property
    def expected_draws(self) -> Array:
        """The expected number of draws, for each rate; what neither stops runs to the last look."""
        stopped = self.crossing + self.futile
        rest = np.maximum(0.0, 1.0 - stopped.sum(axis=1))
        return np.asarray(stopped @ self.looks + rest * self.looks[-1])


def stopping(boundary: Boundary, rate: ArrayLike, *, futility: bool = True) -> Stopping:
    """Return the law of the number of draws at each score rate, by dynamic programming.

    Given the target, scores are iid Bernoulli with its score rate, so the count of favorable
    scores at the looks is a Markov chain; nothing is simulated.
    """
    rates = np.atleast_1d(np.asarray(rate, dtype=np.float64))
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ValueError(f"score rates must lie in [0, 1], got {rates}")
    looks, counts = boundary.looks, boundary.counts
    crossing, futile = np.zeros((2, rates.size, looks.size))
    alive = np.ones((rates.size, 1))  # chance of s successes so far, still drawing
    win, lose = rates[:, None], 1.0 - rates[:, None]
    drawn = 0
    for i, (look, count) in enumerate(zip(looks, counts, strict=True)):
        for _ in range(int(look) - drawn):
            step = np.zeros((rates.size, alive.shape[1] + 1))
            step[:, :-1] = alive * lose
            step[:, 1:] += alive * win
            alive = step
        drawn = int(look)
        crossing[:, i] = alive[:, max(0, int(count)) :].sum(axis=1)
        alive = alive[:, : max(0, int(count))]
        if futility and i + 1 < looks.size:
            # Not even favorable scores alone reach a later count from fewer successes.
            least = max(0, int(np.min(counts[i + 1 :] - (looks[i + 1 :] - look))))
            futile[:, i] = alive[:, :least].sum(axis=1)
            alive[:, :least] = 0.0
        if alive.shape[1] == 0:
            break
    return Stopping(looks, crossing, futile)
